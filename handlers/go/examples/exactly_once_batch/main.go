package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"inboxd"
)

type Order struct {
	Order, Cents int64
}

type invoices struct {
	pool *pgxpool.Pool
}

func (i invoices) make(ctx context.Context, batch *inboxd.Batch) error {
	return inboxd.CompletePGX(ctx, i.pool, batch, func(tx pgx.Tx) error {
		var ids, cents []int64
		for d := range batch.All() {
			var order Order
			if err := d.Event.Decode(&order); err != nil {
				return err
			}
			ids, cents = append(ids, order.Order), append(cents, order.Cents)
		}
		_, err := tx.Exec(ctx, "INSERT INTO invoices (order_id, cents) SELECT * FROM unnest($1::bigint[], $2::bigint[])", ids, cents)
		return err
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(context.Background(), "connect_timeout=5 pool_max_conns=2")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	handler := inboxd.NewHandler("invoices", inboxd.MaxInFlight(100), inboxd.Batches(50, 10*time.Millisecond), inboxd.OrderedBatches())
	handler.OnBatch(inboxd.Topic("orders"), invoices{pool}.make)
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
