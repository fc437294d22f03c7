package inboxd_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"inboxd"
)

// The conformance kit tests the rest of the protocol.

func TestHelloHasTheOptions(t *testing.T) {
	s := newSidecar(t)
	s.start(done, inboxd.Consumer("search"), inboxd.Instance("pod-1"), inboxd.MaxInFlight(7), inboxd.Timeout(12*time.Second))
	equal(t, s.accept(nil), object{
		"protocol": []int{1}, "handler": "billing", "consumer": "search", "instance": "pod-1", "client": "inboxd-go/" + inboxd.Version,
		"max_in_flight": 7, "timeout_ms": 12_000, "batch": object{"max": 1, "wait_ms": 0},
	})
}

func TestTheWindowHoldsAfterAReconnect(t *testing.T) {
	s := newSidecar(t)
	h := s.start(done)
	s.accept(nil)
	s.deliver(1, nil)
	equal(t, s.answer(1), object{"status": "done"})
	h.SetMaxInFlight(3)
	equal(t, s.read(), object{"jsonrpc": "2.0", "method": "window", "params": object{"max_in_flight": 3}})
	equal(t, s.accept(nil)["max_in_flight"], 3)
}

// A record keeps what is logged.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func TestTheLogSaysThatTheConnectionIsBack(t *testing.T) {
	s := newSidecar(t)
	var lines record
	s.start(done, inboxd.Logger(slog.New(slog.NewTextHandler(&lines, nil))))
	s.accept(nil)
	equal(t, strings.Contains(lines.String(), "again"), false)
	s.accept(nil)
	s.deliver(1, nil)
	s.answer(1)
	equal(t, strings.Count(lines.String(), `msg="connected to inboxd again" away=`), 1)
}

func TestAWindowThatChangesDuringTheHelloIsSent(t *testing.T) {
	s := newSidecar(t)
	h := s.start(done)
	s.connection()
	h.SetMaxInFlight(0)
	s.send(object{"id": 1, "result": object{"protocol": 1}})
	equal(t, s.read(), object{"jsonrpc": "2.0", "method": "window", "params": object{"max_in_flight": 0}})
}

func TestExtendMovesTheDeadline(t *testing.T) {
	s := newSidecar(t)
	s.start(on(func(_ context.Context, d *inboxd.Delivery) error { return d.Extend(90 * time.Second) }))
	s.accept(nil)
	s.deliver(1, nil)
	equal(t, s.read()["params"], object{"delivery": "d1", "timeout_ms": 90_000})
	equal(t, s.answer(1), object{"status": "done"})
}

func sleep(d time.Duration) func(*inboxd.Handler) {
	return on(func(ctx context.Context, _ *inboxd.Delivery) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	})
}

func TestTheDeadlineIsNotExtendedForEver(t *testing.T) {
	s := newSidecar(t)
	s.start(sleep(1200*time.Millisecond), inboxd.Timeout(300*time.Millisecond), inboxd.ExtendUpTo(700*time.Millisecond))
	s.accept(object{"timeout_ms": 300})
	s.deliver(1, nil)
	delivered := time.Now()
	line := s.read()
	var end time.Duration
	for ; line["method"] == "extend"; line = s.read() {
		params, _ := line["params"].(object)
		milliseconds, _ := params["timeout_ms"].(float64)
		end = time.Since(delivered) + time.Duration(milliseconds)*time.Millisecond
	}
	equal(t, line["id"], "d1")
	if end < 650*time.Millisecond || end > 750*time.Millisecond {
		t.Errorf("the last extension ends %v after the arrival", end)
	}
}

func TestATimeoutOfAYearIsAccepted(t *testing.T) {
	s := newSidecar(t)
	s.start(done, inboxd.Timeout(366*24*time.Hour))
	equal(t, s.accept(object{"timeout_ms": 31_622_400_000})["timeout_ms"], 31_622_400_000)
	s.deliver(1, nil)
	equal(t, s.answer(1), object{"status": "done"})
}

func TestARefusalIsReturned(t *testing.T) {
	s := newSidecar(t)
	h := s.start(done)
	s.connection()
	s.send(object{"id": 1, "error": object{"code": -32003, "message": "an equal subscription"}})
	var refused *inboxd.RefusedError
	if err := h.wait(t); !errors.As(err, &refused) || refused.Code != -32003 || !strings.Contains(err.Error(), "an equal subscription") {
		t.Errorf("Run returned %v", err)
	}
}

func TestTheEndOfTheContextDrains(t *testing.T) {
	s := newSidecar(t)
	begun, goOn := make(chan bool, 1), make(chan bool)
	h := s.start(on(func(ctx context.Context, _ *inboxd.Delivery) error {
		begun <- true
		<-goOn
		return ctx.Err()
	}))
	s.accept(nil)
	s.deliver(1, nil)
	receive(t, begun)
	h.stop()
	reply := s.expectDrain()
	s.deliver(2, nil)
	equal(t, s.answer(2), object{"status": "skipped"})
	goOn <- true
	equal(t, s.answer(1), object{"status": "done"})
	reply()
	if err := h.wait(t); err != nil {
		t.Error(err)
	}
	equal(t, s.read(), nil)
}

func TestADrainThatTakesTooLongIsGivenUp(t *testing.T) {
	s := newSidecar(t)
	begun, causes := make(chan bool, 1), make(chan error, 1)
	h := s.start(on(func(ctx context.Context, _ *inboxd.Delivery) error {
		begun <- true
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	}), inboxd.DrainTimeout(50*time.Millisecond))
	s.accept(nil)
	s.deliver(1, nil)
	receive(t, begun)
	h.stop()
	s.expectDrain()
	if err := h.wait(t); !errors.Is(err, inboxd.ErrDrainTimeout) {
		t.Errorf("Run returned %v", err)
	}
	var cancelled *inboxd.CancelError
	if cause := receive(t, causes); !errors.As(cause, &cancelled) || cancelled.Reason != "connection_lost" {
		t.Errorf("the cause is %v", cause)
	}
}

func TestRunWaitsForFunctionsOfALostConnection(t *testing.T) {
	s := newSidecar(t)
	begun, ended := make(chan bool, 1), false
	h := s.start(on(func(ctx context.Context, _ *inboxd.Delivery) error {
		begun <- true
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond)
		ended = true
		return nil
	}))
	s.accept(nil)
	s.deliver(1, nil)
	receive(t, begun)
	s.hangUp()
	h.stop()
	if err := h.wait(t); err != nil || !ended {
		t.Errorf("Run returned %v; the function has ended: %v", err, ended)
	}
}

func TestAHandlerRunsOnceAtATime(t *testing.T) {
	s := newSidecar(t)
	h := s.start(done)
	s.accept(nil)
	s.deliver(1, nil)
	s.answer(1)
	if err := h.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("Run returned %v", err)
	}
	h.stop()
	s.expectDrain()()
	if err := h.wait(t); err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	again := make(chan error, 1)
	go func() { again <- h.Run(ctx) }()
	equal(t, s.accept(nil)["handler"], "billing")
	s.deliver(1, nil)
	s.answer(1)
	stop()
	s.expectDrain()()
	if err := receive(t, again); err != nil {
		t.Error(err)
	}
}

func TestAHandlerWithoutAFunctionDoesNotRun(t *testing.T) {
	if err := inboxd.NewHandler("billing").Run(context.Background()); err == nil || !strings.Contains(err.Error(), "no function") {
		t.Errorf("Run returned %v", err)
	}
}

func TestAContextThatHasEndedConnectsToNothing(t *testing.T) {
	s := newSidecar(t)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	h := inboxd.NewHandler("billing", inboxd.Socket(s.path))
	done(h)
	if err := h.Run(ctx); err != nil {
		t.Error(err)
	}
}
