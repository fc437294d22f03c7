package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

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

func (i invoices) make(ctx context.Context, d *inboxd.Delivery) error {
	return inboxd.CompletePGX(ctx, i.pool, d, func(tx pgx.Tx) error {
		var order Order
		if err := d.Event.Decode(&order); err != nil {
			return err
		}
		const insert = "INSERT INTO invoices (order_id, cents) VALUES ($1, $2) RETURNING id"
		var id int64
		if err := tx.QueryRow(ctx, insert, order.Order, order.Cents).Scan(&id); err != nil {
			return err
		}
		d.SetResult(map[string]int64{"invoice": id})
		return nil
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(context.Background(), "connect_timeout=5 pool_max_conns=10") // and the PG… variables
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	handler := inboxd.NewHandler("invoices", inboxd.MaxInFlight(10))
	handler.On(inboxd.Topic("orders"), invoices{pool}.make)
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
