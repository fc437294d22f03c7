package inboxd_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"inboxd"
)

// A sqlError is like an error of pgx and of pq.
type sqlError struct{ state, text string }

func (e *sqlError) Error() string    { return e.text }
func (e *sqlError) SQLState() string { return e.state }

type codedError struct{}

func (codedError) Error() string { return "upstream 503" }
func (codedError) Code() string  { return "UPSTREAM" }

func TestWhatAFunctionReturnsIsTheVerdict(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		err  error
		want object
	}{
		"nil":                {nil, object{"status": "done"}},
		"retry":              {inboxd.Retry(time.Minute, boom).WithCode("UPSTREAM"), object{"status": "retry", "delay_ms": 60_000, "reason": "boom", "code": "UPSTREAM"}},
		"retry at once":      {inboxd.Retry(0, nil), object{"status": "retry", "delay_ms": 0}},
		"the usual backoff":  {inboxd.Retry(inboxd.Backoff, boom), object{"status": "retry", "reason": "boom"}},
		"dead":               {inboxd.Dead(boom), object{"status": "dead", "reason": "boom"}},
		"snooze":             {inboxd.Snooze(time.Second, nil), object{"status": "snooze", "delay_ms": 1000}},
		"skip":               {inboxd.Skip(), object{"status": "skipped"}},
		"a wrapped verdict":  {fmt.Errorf("order 7: %w", inboxd.Dead(boom).WithCode("SCHEMA")), object{"status": "dead", "reason": "order 7: boom", "code": "SCHEMA"}},
		"any other error":    {boom, object{"status": "retry", "reason": "boom", "code": "HANDLER_ERROR"}},
		"an error with code": {fmt.Errorf("charge: %w", codedError{}), object{"status": "retry", "reason": "charge: upstream 503", "code": "UPSTREAM"}},
		"data":               {&inboxd.DataError{Err: boom}, object{"status": "retry", "reason": "boom", "code": "DATA"}},
		"PostgreSQL":         {&sqlError{"23505", "duplicate key"}, object{"status": "retry", "reason": "duplicate key", "code": "23505"}},
		"PostgreSQL is away": {&sqlError{"57P01", "shutting down"}, object{"status": "snooze", "delay_ms": 1000, "reason": "shutting down", "code": "57P01"}},
		"a lock of others":   {&sqlError{"55P03", "lock timeout"}, object{"status": "snooze", "delay_ms": 1000, "reason": "lock timeout", "code": "55P03"}},
		"an object in use":   {&sqlError{"55006", "in use"}, object{"status": "snooze", "delay_ms": 1000, "reason": "in use", "code": "55006"}},
		"a wrong state":      {&sqlError{"55000", "no such state"}, object{"status": "retry", "reason": "no such state", "code": "55000"}},
		"a lost claim":       {&sqlError{"IB001", "claim 1.1.17 is lost"}, object{"status": "settled"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSidecar(t)
			s.start(returns(test.err))
			s.accept(nil)
			s.deliver(1, nil)
			equal(t, s.answer(1), test.want)
		})
	}
}

func TestLongReasonsAndCodesAreCutBetweenCharacters(t *testing.T) {
	s := newSidecar(t)
	s.start(returns(inboxd.Dead(errors.New(strings.Repeat("xü", 3000))).WithCode(strings.Repeat("ü", 100))))
	s.accept(nil)
	s.deliver(1, nil)
	answer := s.answer(1)
	equal(t, answer["reason"], strings.Repeat("xü", 1365)+"x")
	equal(t, answer["code"], strings.Repeat("ü", 32))
}

func TestAPanicIsARetryWithItsPlace(t *testing.T) {
	s := newSidecar(t)
	_, _, line, _ := runtime.Caller(0)
	s.start(on(func(_ context.Context, d *inboxd.Delivery) error {
		if d.Event.ID == "A1" {
			var missing *inboxd.Delivery
			return errors.New(missing.ID)
		}
		panic("no order")
	}))
	s.accept(nil)
	for number, want := range []string{ // the process goes on
		fmt.Sprintf("panic: no order (functions_test.go:%d)", line+6),
		fmt.Sprintf("panic: runtime error: invalid memory address or nil pointer dereference (functions_test.go:%d)", line+4),
	} {
		s.deliver(number, nil)
		equal(t, s.answer(number), object{"status": "retry", "reason": want, "code": "PANIC"})
	}
}

func TestResults(t *testing.T) {
	for name, test := range map[string]struct{ value, want any }{
		"a struct":          {struct{ Invoice int }{88}, object{"Invoice": 88}},
		"null":              {nil, nil},
		"no JSON":           {math.Inf(1), object{"inboxd": "result not stored: json: unsupported value: +Inf"}},
		"more than it does": {strings.Repeat("x", 1<<20), object{"inboxd": "result not stored: 1048578 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSidecar(t)
			s.start(on(func(_ context.Context, d *inboxd.Delivery) error { d.SetResult(test.value); return nil }))
			s.accept(nil)
			s.deliver(1, nil)
			equal(t, s.answer(1), object{"status": "done", "result": test.want})
		})
	}
}

func TestEventsGoWithTheAnswer(t *testing.T) {
	s := newSidecar(t)
	s.start(on(func(_ context.Context, d *inboxd.Delivery) error {
		if err := d.Emit(inboxd.OutboxEvent{Topic: "invoices", Key: "c-17", Type: "made", Data: object{"n": 1}, Headers: map[string]string{"h": "1"}}); err != nil {
			return err
		}
		return d.Emit(inboxd.OutboxEvent{Aggregate: "mail", Type: "raw", Data: []byte{255}}, inboxd.OutboxEvent{Topic: "t", Type: "gone"})
	}))
	s.accept(nil)
	s.deliver(1, nil)
	equal(t, s.answer(1), object{"status": "done", "emit": []object{
		{"topic": "invoices", "key": "c-17", "type": "made", "data": object{"n": 1}, "headers": object{"h": "1"}},
		{"aggregate": "mail", "type": "raw", "data_base64": "/w=="},
		{"topic": "t", "type": "gone"},
	}})
}

func TestEventsOfAFailureAreNotSent(t *testing.T) {
	s := newSidecar(t)
	s.start(on(func(_ context.Context, d *inboxd.Delivery) error {
		return errors.Join(d.Emit(inboxd.OutboxEvent{Topic: "t", Type: "made"}), inboxd.Dead(errors.New("no")))
	}))
	s.accept(nil)
	s.deliver(1, nil)
	equal(t, s.answer(1), object{"status": "dead", "reason": "no"})
}

func TestEventsThatAreNoJSONAreAnError(t *testing.T) {
	var d inboxd.Delivery
	if err := d.Emit(inboxd.OutboxEvent{Topic: "t", Type: "made", Data: func() {}}); err == nil || !strings.Contains(err.Error(), "made") {
		t.Errorf("Emit returned %v", err)
	}
	if err := d.Emit(inboxd.OutboxEvent{Topic: "t", Type: "made", Data: make([]byte, 8<<20)}); err == nil || !strings.Contains(err.Error(), "8388608") {
		t.Errorf("Emit returned %v", err)
	}
}

func TestTheMostSpecificFunctionGetsAMessage(t *testing.T) {
	s := newSidecar(t)
	s.start(func(h *inboxd.Handler) {
		for name, messages := range map[string]inboxd.Subscription{
			"exact":  inboxd.Types("order.paid"),
			"prefix": inboxd.Topic("orders", "order.*", "refund.*"),
			"longer": inboxd.Types("order.pa*"),
			"topic":  inboxd.Topic("orders"),
		} {
			h.On(messages, func(_ context.Context, d *inboxd.Delivery) error { d.SetResult(name); return nil })
		}
	})
	s.accept(nil)
	for number, test := range []struct{ topic, typ, want string }{
		{"orders", "order.paid", "exact"}, {"orders", "order.pass", "longer"}, {"orders", "order.new", "prefix"}, {"orders", "refund.new", "prefix"},
		{"orders", "mail", "topic"}, {"orders", "", "topic"}, {"payments", "order.paid", "exact"},
	} {
		s.deliver(number, object{"kafkatopic": test.topic, "type": test.typ})
		equal(t, s.answer(number)["result"], test.want)
	}
	s.deliver(9, object{"kafkatopic": "payments", "type": "mail"})
	equal(t, s.answer(9), object{"status": "snooze", "delay_ms": 5000, "code": "NO_FUNCTION",
		"reason": "this version of the handler has no function for the type"})
}

func TestEqualSubscriptionsPanic(t *testing.T) {
	defer func() {
		equal(t, recover(), "inboxd: two functions for topic orders and type *")
	}()
	h := inboxd.NewHandler("billing")
	h.On(inboxd.Topic("orders"), nil)
	h.On(inboxd.Topic("orders", "*"), nil)
}

func TestACancelEndsTheContext(t *testing.T) {
	s := newSidecar(t)
	begun, causes := make(chan bool, 1), make(chan error, 1)
	s.start(on(func(ctx context.Context, d *inboxd.Delivery) error {
		begun <- true
		<-ctx.Done()
		causes <- errors.Join(context.Cause(ctx), d.Extend(time.Second))
		return ctx.Err()
	}))
	s.accept(nil)
	s.deliver(1, nil)
	receive(t, begun)
	s.cancel(1, "lease_lost")
	var cancelled *inboxd.CancelError
	if cause := receive(t, causes); !errors.As(cause, &cancelled) || cancelled.Reason != "lease_lost" {
		t.Errorf("the cause is %v", cause)
	}
	s.cancel(7, "timeout")
	s.send(object{"id": "x", "method": "later"}) // and nothing was sent for d1
	equal(t, s.read()["id"], "x")
}

func TestTheContextHasTheValuesOfRunAndEndsWithTheFunction(t *testing.T) {
	s := newSidecar(t)
	contexts := make(chan context.Context, 1)
	h := inboxd.NewHandler("billing", inboxd.Socket(s.path))
	h.On(inboxd.Everything, func(ctx context.Context, _ *inboxd.Delivery) error {
		contexts <- ctx
		return ctx.Err()
	})
	type key struct{}
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	s.accept(nil)
	s.deliver(1, nil)
	equal(t, s.answer(1), object{"status": "done"})
	got := receive(t, contexts)
	equal(t, got.Value(key{}), "value")
	receive(t, got.Done())
	stop()
	s.expectDrain()()
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

func TestOnErrorMayReplaceTheError(t *testing.T) {
	s := newSidecar(t)
	gone := errors.New("gone")
	s.start(returns(gone), inboxd.OnError(func(d *inboxd.Delivery, err error) error {
		switch d.Event.ID {
		case "A1":
			return inboxd.Dead(err)
		case "A2": // a hook that only logs
			return nil
		case "A3":
			panic("bug")
		case "A4":
			runtime.Goexit()
		}
		return err
	}))
	s.accept(nil)
	for number, want := range []string{"retry", "dead", "retry", "retry", "retry"} {
		s.deliver(number, nil)
		equal(t, s.answer(number)["status"], want)
	}
}

func TestAFunctionThatEndsItsGoroutineFails(t *testing.T) {
	s := newSidecar(t)
	s.start(on(func(context.Context, *inboxd.Delivery) error { runtime.Goexit(); return nil }))
	s.accept(nil)
	for number := range 2 { // the process goes on
		s.deliver(number, nil)
		equal(t, s.answer(number), object{"status": "retry", "code": "PANIC",
			"reason": "panic: the function ended its goroutine: runtime.Goexit, or FailNow of a test"})
	}
}

func TestEventsAfterTheCompletionAreRefused(t *testing.T) {
	d := delivery(1)
	if err := d.Complete(context.Background(), inboxd.PGX(&fakeTx{})); err != nil {
		t.Fatal(err)
	}
	if err := d.Emit(inboxd.OutboxEvent{Topic: "t", Type: "made"}); err == nil || !strings.Contains(err.Error(), "before") {
		t.Errorf("Emit returned %v", err)
	}
}

func TestUnreadAnswersHoldUpTheFunctions(t *testing.T) {
	s := newSidecar(t)
	s.start(on(func(_ context.Context, d *inboxd.Delivery) error {
		d.SetResult(strings.Repeat("x", 1_000_000))
		return nil
	}))
	s.accept(nil)
	for number := range 30 {
		s.deliver(number, nil)
	}
	time.Sleep(100 * time.Millisecond)
	for range 30 {
		equal(t, s.read()["result"].(object)["status"], "done")
	}
}
