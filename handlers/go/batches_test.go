package inboxd_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"inboxd"
)

var (
	a = object{"partitionkey": "a"}
	b = object{"partitionkey": "b"}

	errBoom = errors.New("boom")
)

func ids(deliveries []*inboxd.Delivery) []string {
	var all []string
	for _, d := range deliveries {
		all = append(all, d.ID)
	}
	return all
}

func TestAFunctionForBatchesGetsAllMessages(t *testing.T) {
	s := newSidecar(t)
	seen := make(chan []string, 1)
	s.start(onBatch(func(_ context.Context, b *inboxd.Batch) error { seen <- ids(b.Deliveries); return nil }))
	equal(t, s.accept(nil)["batch"], object{"max": 100, "wait_ms": 0})
	s.batch(a, b, a)
	equal(t, s.statuses(), []string{"done", "done", "done"})
	equal(t, receive(t, seen), []string{"d1", "d2", "d3"})
}

func TestEachMessageOfABatchMayHaveAVerdictOfItsOwn(t *testing.T) {
	s := newSidecar(t)
	s.start(onBatch(func(_ context.Context, b *inboxd.Batch) error {
		b.Deliveries[0].SetResult(1)
		b.Deliveries[0].SetVerdict(nil)
		b.Deliveries[1].SetVerdict(inboxd.Dead(errBoom))
		b.Deliveries[2].SetVerdict(errBoom)
		return inboxd.Snooze(time.Second, nil)
	}), inboxd.Batches(10, 20*time.Millisecond))
	equal(t, s.accept(nil)["batch"], object{"max": 10, "wait_ms": 20})
	s.batch(nil, nil, nil, nil)
	equal(t, s.answers(), object{
		"d1": object{"id": "d1", "status": "done", "result": 1},
		"d2": object{"id": "d2", "status": "dead", "reason": "boom"},
		"d3": object{"id": "d3", "status": "retry", "reason": "boom", "code": "HANDLER_ERROR"},
		"d4": object{"id": "d4", "status": "snooze", "delay_ms": 1000},
	})
}

func TestAnErrorOfABatchIsTheVerdictForAll(t *testing.T) {
	s := newSidecar(t)
	s.start(onBatch(func(context.Context, *inboxd.Batch) error { return inboxd.Snooze(3*time.Second, nil) }))
	s.accept(nil)
	s.batch(a, a, b)
	equal(t, s.statuses(), []string{"snooze", "snooze", "snooze"})
}

func TestInAnOrderedBatchItIsTheVerdictForTheFirstOfEachKey(t *testing.T) {
	s := newSidecar(t)
	s.start(onBatch(func(context.Context, *inboxd.Batch) error { panic("bug") }), inboxd.OrderedBatches())
	equal(t, s.accept(nil)["batch"].(object)["ordered"], true)
	s.batch(a, a, b, nil)
	equal(t, s.statuses(), []string{"retry", "skipped", "retry", "retry"})
}

func TestALoopOverAnOrderedBatchLeavesOutWhatIsBehind(t *testing.T) {
	s := newSidecar(t)
	seen := make(chan string, 10)
	verdicts := map[string]error{"d1": errBoom, "d3": inboxd.Dead(errBoom)}
	s.start(onBatch(func(_ context.Context, batch *inboxd.Batch) error {
		for d := range batch.All() {
			seen <- d.ID
			d.SetVerdict(verdicts[d.ID])
		}
		close(seen)
		return nil
	}), inboxd.OrderedBatches())
	s.accept(nil)
	s.batch(a, a, b, b, a)
	equal(t, s.statuses(), []string{"retry", "skipped", "dead", "done", "skipped"})
	var all []string
	for id := range seen {
		all = append(all, id)
	}
	equal(t, all, []string{"d1", "d3", "d4"})
}

func TestTheContextOfABatchEndsWhenNoMessageIsWanted(t *testing.T) {
	s := newSidecar(t)
	begun, alone, causes := make(chan bool, 1), make(chan error, 1), make(chan error, 1)
	s.start(onBatch(func(ctx context.Context, batch *inboxd.Batch) error {
		begun <- true
		<-batch.Deliveries[0].Context().Done()
		alone <- ctx.Err()
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	}))
	s.accept(nil)
	s.batch(a, b)
	receive(t, begun)
	s.cancel(1, "timeout")
	if err := receive(t, alone); err != nil {
		t.Errorf("one of two was cancelled, and the context has the error %v", err)
	}
	s.cancel(2, "timeout")
	var cancelled *inboxd.CancelError
	if cause := receive(t, causes); !errors.As(cause, &cancelled) || cancelled.Reason != "timeout" {
		t.Errorf("the cause is %v", cause)
	}
}

func TestALostClaimSkipsTheOthersOfTheBatch(t *testing.T) {
	s := newSidecar(t)
	s.start(onBatch(func(ctx context.Context, batch *inboxd.Batch) error {
		return batch.Complete(ctx, inboxd.TxFunc(func(context.Context, string, ...any) error {
			return &sqlError{"IB001", "ERROR: inbox.complete: claim 2.1.17 is lost (SQLSTATE IB001)"}
		}))
	}))
	s.accept(nil)
	s.batch(nil, nil, nil)
	equal(t, s.statuses(), []string{"skipped", "settled", "skipped"})
}

func TestFunctionsForMessagesAndForBatchesKeepTheOrderOfAKey(t *testing.T) {
	s := newSidecar(t)
	seen := make(chan string, 10)
	s.start(func(h *inboxd.Handler) {
		h.On(inboxd.Types("one"), func(_ context.Context, d *inboxd.Delivery) error {
			seen <- d.ID
			if d.ID == "d3" {
				return errBoom
			}
			return nil
		})
		h.OnBatch(inboxd.Types("many"), func(_ context.Context, batch *inboxd.Batch) error {
			for _, d := range batch.Deliveries {
				seen <- d.ID
			}
			return nil
		})
	}, inboxd.OrderedBatches())
	s.accept(nil)
	key := func(typ, key string) object { return object{"type": typ, "partitionkey": key} }
	s.batch(key("many", "a"), key("many", "b"), key("one", "a"), key("many", "a"), key("many", "b"))
	equal(t, s.statuses(), []string{"done", "done", "retry", "skipped", "done"})
	close(seen)
	var all []string
	for id := range seen {
		all = append(all, id)
	}
	equal(t, all, []string{"d1", "d2", "d3", "d5"})
}

func TestAFunctionThatEndsItsGoroutineLeavesTheMessagesBehindIt(t *testing.T) {
	s := newSidecar(t)
	s.start(func(h *inboxd.Handler) {
		h.On(inboxd.Types("single"), func(context.Context, *inboxd.Delivery) error { runtime.Goexit(); return nil })
		h.OnBatch(inboxd.Types("batch"), func(context.Context, *inboxd.Batch) error { runtime.Goexit(); return nil })
	}, inboxd.Batches(10, 0), inboxd.OrderedBatches())
	s.accept(nil)
	for _, kind := range []string{"single", "batch"} {
		s.batch(object{"type": kind, "partitionkey": "a"}, object{"type": kind, "partitionkey": "a"}, object{"type": "single", "partitionkey": "a"})
		equal(t, s.statuses(), []string{"retry", "skipped", "skipped"})
	}
}
