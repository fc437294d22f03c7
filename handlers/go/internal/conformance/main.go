// Conformance is the test handler of the conformance kit (tests/conformance/README.md of inboxd).
//
//	conformance STYLE
//
// STYLE is the kind of the functions: single, or batch.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"inboxd"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	handler := inboxd.NewHandler(option("NAME"), options()...)
	p := program{handler}
	subscriptions := "*"
	if text := option("SUBSCRIBE"); text != "" {
		subscriptions = text
	}
	for _, part := range strings.Split(subscriptions, ";") {
		names := strings.Fields(part)
		messages := inboxd.Topic(names[0], names[1:]...)
		if os.Args[1] == "batch" {
			handler.OnBatch(messages, p.batch)
		} else {
			handler.On(messages, p.single)
		}
	}
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func option(name string) string {
	return os.Getenv("CONFORMANCE_" + name)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func milliseconds(text string) time.Duration {
	return time.Duration(number(text)) * time.Millisecond
}

func options() []inboxd.Option {
	var all []inboxd.Option
	if text := option("MAX_IN_FLIGHT"); text != "" {
		all = append(all, inboxd.MaxInFlight(number(text)))
	}
	if text := option("TIMEOUT_MS"); text != "" {
		all = append(all, inboxd.Timeout(milliseconds(text)))
	}
	if text := option("CONSUMER"); text != "" {
		all = append(all, inboxd.Consumer(text))
	}
	if text := option("BATCH_MAX"); text != "" {
		var wait time.Duration
		if text := option("BATCH_WAIT_MS"); text != "" {
			wait = milliseconds(text)
		}
		all = append(all, inboxd.Batches(number(text), wait))
	}
	if option("ORDERED") == "1" {
		all = append(all, inboxd.OrderedBatches())
	}
	return all
}

type program struct {
	handler *inboxd.Handler
}

func (p program) batch(_ context.Context, b *inboxd.Batch) error {
	for d := range b.All() {
		d.SetVerdict(p.single(d.Context(), d))
	}
	return nil
}

func (p program) single(ctx context.Context, d *inboxd.Delivery) error {
	attributes := d.Event.Extensions
	delay := inboxd.Backoff
	if text, ok := attributes["delayms"]; ok {
		delay = milliseconds(text)
	}
	var reason error
	if text, ok := attributes["reason"]; ok {
		reason = errors.New(text)
	}
	switch d.Event.Type {
	case "retry":
		return inboxd.Retry(delay, reason).WithCode(attributes["code"])
	case "dead":
		return inboxd.Dead(reason).WithCode(attributes["code"])
	case "snooze":
		return inboxd.Snooze(delay, reason).WithCode(attributes["code"])
	case "skipped":
		return inboxd.Skip()
	case "raise":
		return reason
	case "settled":
		d.SetCompleted()
	case "result":
		d.SetResult(json.RawMessage(d.Event.Data))
	case "echo":
		d.SetResult(echo(d))
	case "emit":
		return emit(d)
	case "work":
		return work(ctx, milliseconds(attributes["workms"]))
	case "extend":
		return d.Extend(milliseconds(attributes["timeoutms"]))
	case "window":
		p.handler.SetMaxInFlight(number(attributes["window"]))
	}
	return nil
}

func work(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func emit(d *inboxd.Delivery) error {
	var wanted []struct {
		Topic, Key, Type string
		Data             json.RawMessage
	}
	if err := d.Event.Decode(&wanted); err != nil {
		return err
	}
	for _, e := range wanted {
		if err := d.Emit(inboxd.OutboxEvent{Topic: e.Topic, Key: e.Key, Type: e.Type, Data: e.Data}); err != nil {
			return err
		}
	}
	return nil
}

func echo(d *inboxd.Delivery) map[string]any {
	e := &d.Event
	seen := map[string]any{
		"claim": d.Claim, "seq": strconv.FormatInt(d.Seq, 10), "attempt": d.Attempt, "replay": d.Replay,
		"id": e.ID, "source": e.Source, "type": e.Type,
		"topic": e.Topic, "partition": e.Partition, "offset": strconv.FormatInt(e.Offset, 10),
	}
	if trace, ok := e.Trace(); ok {
		seen["traceparent"] = trace.TraceParent()
	}
	if e.Key != nil {
		seen["key_base64"] = e.Key
	}
	if e.Binary {
		seen["data_base64"] = e.Data
	} else if !e.IsTombstone() {
		seen["data"] = json.RawMessage(e.Data)
	}
	headers := make([][2]any, 0, len(d.Headers))
	for _, h := range d.Headers {
		value := any(h.Value)
		if h.Value == nil {
			value = nil
		}
		headers = append(headers, [2]any{h.Key, value})
	}
	seen["headers"] = headers
	return seen
}
