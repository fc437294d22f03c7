// Service shows what a service needs: several functions, verdicts, a long function, events to publish, and a stop without a loss.
package main

import (
	"context"
	"errors"
	"log"
	"maps"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"inboxd"
)

type Order struct {
	Customer string
	Cents    *int64
}

// totals are the sums by customer. The functions run at the same time.
type totals struct {
	mu        sync.Mutex
	customers map[string]int64
}

func (t *totals) add(_ context.Context, d *inboxd.Delivery) error {
	if d.Event.IsTombstone() {
		return nil
	}
	var order Order
	if err := d.Event.Decode(&order); err != nil {
		return err // a retry with this text
	}
	if order.Cents == nil {
		return inboxd.Dead(errors.New("no cents in the order")).WithCode("SCHEMA")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.customers[order.Customer] += *order.Cents
	d.SetResult(map[string]int64{"total_cents": t.customers[order.Customer]})
	return nil
}

func (t *totals) report(ctx context.Context, d *inboxd.Delivery) error {
	if time.Now().Hour() < 6 {
		return inboxd.Snooze(10*time.Minute, errors.New("reports begin at six"))
	}
	select {
	case <-time.After(time.Minute): // the library extends the deadline
	case <-ctx.Done(): // inboxd does not wait for the answer any more
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return d.Emit(inboxd.OutboxEvent{Topic: "reports", Type: "report.made", Data: maps.Clone(t.customers)})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	t := &totals{customers: make(map[string]int64)}
	handler := inboxd.NewHandler("totals", inboxd.MaxInFlight(32), inboxd.Timeout(30*time.Second))
	handler.On(inboxd.Topic("orders", "order.*"), t.add)
	handler.On(inboxd.Topic("orders", "order.report"), t.report)
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
