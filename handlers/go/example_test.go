package inboxd_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"inboxd"
)

type Order struct {
	Order, Cents int64
}

// A whole program: it handles messages until SIGTERM, and then drains.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	handler := inboxd.NewHandler("demo", inboxd.MaxInFlight(32))
	handler.On(inboxd.Everything, func(ctx context.Context, d *inboxd.Delivery) error {
		fmt.Printf("%s %s\n", d.Event.Type, d.Event.Data)
		return nil
	})
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleHandler_On() {
	handler := inboxd.NewHandler("billing")
	handler.On(inboxd.Topic("orders", "order.created", "refund.*"), func(ctx context.Context, d *inboxd.Delivery) error {
		var order Order
		if err := d.Event.Decode(&order); err != nil {
			return inboxd.Dead(err).WithCode("SCHEMA")
		}
		d.SetResult(map[string]int64{"invoice": order.Order})
		return nil
	})
	handler.On(inboxd.Types("audit.*"), func(ctx context.Context, d *inboxd.Delivery) error {
		return inboxd.Snooze(time.Hour, errors.New("audits begin at six"))
	})
}

func ExampleHandler_OnBatch() {
	var db *sql.DB
	handler := inboxd.NewHandler("invoices", inboxd.Batches(50, 10*time.Millisecond), inboxd.OrderedBatches())
	handler.OnBatch(inboxd.Topic("orders"), func(ctx context.Context, batch *inboxd.Batch) error {
		return inboxd.CompleteSQL(ctx, db, batch, func(tx *sql.Tx) error {
			for d := range batch.All() {
				if _, err := tx.ExecContext(ctx, "INSERT INTO seen (id) VALUES ($1)", d.Event.ID); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func ExampleDelivery_Complete() {
	var db *sql.DB
	insert := func(ctx context.Context, d *inboxd.Delivery) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO invoices (order_id) VALUES ($1)", d.Event.ID); err != nil {
			return err
		}
		if err := d.Complete(ctx, inboxd.SQL(tx)); err != nil {
			return err
		}
		return tx.Commit()
	}
	inboxd.NewHandler("invoices").On(inboxd.Topic("orders"), insert)
}

func ExampleDelivery_Emit() {
	handler := inboxd.NewHandler("shipping")
	handler.On(inboxd.Topic("orders", "order.paid"), func(ctx context.Context, d *inboxd.Delivery) error {
		return d.Emit(inboxd.OutboxEvent{
			Topic: "shipments", Type: "shipment.created", Key: d.Event.Subject, Data: map[string]string{"order": d.Event.ID},
		})
	})
}

// An event becomes the type of another library by way of JSON.
func ExampleEvent_MarshalJSON() {
	event := inboxd.Event{ID: "A234", Source: "orders", Type: "order.created", Data: []byte(`{"order":17}`)}
	text, err := json.Marshal(event)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output: {"specversion":"1.0","id":"A234","source":"orders","type":"order.created","data":{"order":17}}
}

func ExampleRetry() {
	fmt.Println(inboxd.Retry(time.Minute, errors.New("upstream 503")).WithCode("UPSTREAM"))
	// Output: upstream 503
}
