package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // or another driver for PostgreSQL

	"inboxd"
)

type Order struct {
	Order, Cents int64
}

type invoices struct {
	db *sql.DB
}

func (i invoices) make(ctx context.Context, d *inboxd.Delivery) error {
	return inboxd.CompleteSQL(ctx, i.db, d, func(tx *sql.Tx) error {
		var order Order
		if err := d.Event.Decode(&order); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO invoices (order_id, cents) VALUES ($1, $2)", order.Order, order.Cents)
		return err
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := sql.Open("pgx", "connect_timeout=5")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(10)

	handler := inboxd.NewHandler("invoices", inboxd.MaxInFlight(10))
	handler.On(inboxd.Topic("orders"), invoices{db}.make)
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
