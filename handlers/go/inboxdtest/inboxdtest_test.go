package inboxdtest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"inboxd"
	"inboxd/inboxdtest"
)

type order struct {
	Order int `json:"order"`
}

// A tx is an open transaction of a driver. It has no inbox.
type tx struct{ statements int }

func (t *tx) Exec(context.Context, string, ...any) (struct{}, error) {
	t.statements++
	return struct{}{}, errors.New("there is no inbox")
}
func (t *tx) Commit(context.Context) error       { return nil }
func (t *tx) Rollback(context.Context) error     { return nil }
func (t *tx) Begin(context.Context) (*tx, error) { return t, nil }
func on(f inboxd.Func, o ...inboxd.Option) *inboxd.Handler {
	h := inboxd.NewHandler("billing", o...)
	h.On(inboxd.Everything, f)
	return h
}

func TestTheHandlerFindsTheFunction(t *testing.T) {
	h := inboxd.NewHandler("billing", inboxd.OnError(func(_ *inboxd.Delivery, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return inboxd.Dead(err).WithCode("HOOK")
		}
		return nil
	}))
	h.On(inboxd.Topic("orders", "order.*"), func(_ context.Context, d *inboxd.Delivery) error {
		var o order
		if err := d.Event.Decode(&o); err != nil {
			return err
		}
		d.SetResult(o)
		return d.Emit(inboxd.OutboxEvent{Type: "made", Topic: "t", Data: []byte{255}})
	})
	h.On(inboxd.Topic("orders"), func(context.Context, *inboxd.Delivery) error {
		return inboxd.Retry(2*time.Second, errors.New("locked")).WithCode("LOCKED")
	})
	h.On(inboxd.Topic("files"), func(context.Context, *inboxd.Delivery) error { return os.ErrNotExist })
	message := inboxdtest.Message("orders", order{17})
	if o := inboxdtest.Deliver(t, h, message); o.Status != inboxdtest.Retry || o.Reason != "locked" || o.Code != "LOCKED" || o.Delay != 2*time.Second || o.Err == nil {
		t.Errorf("%+v", o)
	}
	message.Event.Type = "order.created"
	o := inboxdtest.Deliver(t, h, message)
	if o.Status != inboxdtest.Done || string(o.Result) != `{"order":17}` || o.Completed {
		t.Errorf("%+v", o)
	}
	if data, ok := o.Events[0].Data.([]byte); !ok || data[0] != 255 || o.Events[0].Type != "made" {
		t.Errorf("%+v", o.Events)
	}
	if o := inboxdtest.Deliver(t, h, inboxdtest.Message("files", nil)); o.Status != inboxdtest.Dead || o.Code != "HOOK" || !errors.Is(o.Err, os.ErrNotExist) {
		t.Errorf("%+v", o)
	}
	if o := inboxdtest.Deliver(t, h, inboxdtest.Message("unknown", nil)); o.Code != "NO_FUNCTION" {
		t.Errorf("%+v", o)
	}
}

func TestACompletionIsKeptAndNotExecuted(t *testing.T) {
	db := &tx{}
	h := on(func(ctx context.Context, d *inboxd.Delivery) error {
		return inboxd.CompletePGX(ctx, db, d, func(*tx) error {
			d.SetResult(17)
			return d.Emit(inboxd.OutboxEvent{Type: "made", Topic: "t", Data: order{1}})
		})
	})
	o := inboxdtest.Deliver(t, h, inboxdtest.Message("orders", nil))
	if !o.Completed || o.Status != inboxdtest.Done || string(o.Result) != "17" || len(o.Events) != 1 || db.statements != 0 {
		t.Errorf("%+v, %d statements", o, db.statements)
	}
}

func TestACompletionNeedsATransaction(t *testing.T) {
	outside := inboxd.TxFunc(func(context.Context, string, ...any) error { return errors.New("no transaction") })
	h := on(func(ctx context.Context, d *inboxd.Delivery) error { return d.Complete(ctx, outside) })
	if o := inboxdtest.Deliver(t, h, inboxdtest.Message("orders", nil)); o.Status != inboxdtest.Retry || o.Completed {
		t.Errorf("%+v", o)
	}
}

func TestABatch(t *testing.T) {
	h := inboxd.NewHandler("billing", inboxd.OrderedBatches())
	h.OnBatch(inboxd.Everything, func(ctx context.Context, b *inboxd.Batch) error {
		b.Deliveries[0].SetVerdict(inboxd.Retry(inboxd.Backoff, errors.New("locked")))
		b.Deliveries[2].SetResult(3)
		return b.Complete(ctx, inboxd.PGX(&tx{}))
	})
	var messages []*inboxd.Delivery
	for _, key := range []string{"a", "a", "b"} {
		m := inboxdtest.Message("orders", nil)
		m.Event.Key = []byte(key)
		messages = append(messages, m)
	}
	var statuses []string
	outcomes := inboxdtest.DeliverBatch(t, h, "key", messages...)
	for _, o := range outcomes {
		statuses = append(statuses, o.Status)
	}
	if strings.Join(statuses, " ") != "retry skipped done" || string(outcomes[2].Result) != "3" {
		t.Errorf("%+v", outcomes)
	}
}

func TestAnExportedMessage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "case.json")
	const exported = `{"delivery":{"claim":"exported","seq":"9","attempt":10,"max_attempts":10,"replay":false},
		"event":{"id":"A1","source":"s","type":"orders","kafkatopic":"orders","data":{"order":17}},"headers":[["h","1"]]}`
	if err := os.WriteFile(path, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	o := inboxdtest.Deliver(t, on(func(_ context.Context, d *inboxd.Delivery) error {
		var data order
		if err := d.Event.Decode(&data); err != nil {
			return err
		}
		d.SetResult([]any{data.Order, d.Attempt, d.Seq, string(d.Header("h"))})
		return nil
	}), inboxdtest.Load(t, path))
	if string(o.Result) != `[17,10,9,"1"]` {
		t.Errorf("%+v", o)
	}
}
