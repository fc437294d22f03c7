// Bench is the handler of tests/bench/handlers.py of the repository: bench noop|least|once BATCH.
//
// noop answers at once. least has an effect in a transaction of its own, and then answers done. once completes the message in the
// transaction of its effect.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"inboxd"
)

const (
	insert    = "INSERT INTO effects (order_id, customer) VALUES ($1, $2)"
	insertAll = "INSERT INTO effects (order_id, customer) SELECT * FROM unnest($1::bigint[], $2::text[])"
)

type order struct {
	Order    int64
	Customer string
}

type effects struct {
	pool *pgxpool.Pool
	once bool
}

// transact commits the effect, exactly once together with the completion.
func (e effects) transact(ctx context.Context, message inboxd.Completer, effect func(pgx.Tx) error) error {
	if e.once {
		return inboxd.CompletePGX(ctx, e.pool, message, effect)
	}
	return pgx.BeginFunc(ctx, e.pool, effect)
}

func (e effects) one(ctx context.Context, d *inboxd.Delivery) error {
	var o order
	if err := d.Event.Decode(&o); err != nil {
		return err
	}
	return e.transact(ctx, d, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insert, o.Order, o.Customer)
		return err
	})
}

func (e effects) many(ctx context.Context, b *inboxd.Batch) error {
	ids, customers := make([]int64, len(b.Deliveries)), make([]string, len(b.Deliveries))
	for i, d := range b.Deliveries {
		var o order
		if err := d.Event.Decode(&o); err != nil {
			return err
		}
		ids[i], customers[i] = o.Order, o.Customer
	}
	return e.transact(ctx, b, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertAll, ids, customers)
		return err
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kind := os.Args[1]
	size, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(context.Background(), "pool_max_conns=4")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	window := 200
	if kind == "noop" {
		window = 1000
	}
	var wait time.Duration
	if size > 1 {
		wait = 5 * time.Millisecond
	}
	handler := inboxd.NewHandler("bench", inboxd.MaxInFlight(window), inboxd.Batches(size, wait))
	e := effects{pool, kind == "once"}
	switch {
	case kind == "noop":
		handler.On(inboxd.Everything, func(context.Context, *inboxd.Delivery) error { return nil })
	case size == 1:
		handler.On(inboxd.Everything, e.one)
	default:
		handler.OnBatch(inboxd.Everything, e.many)
	}
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
