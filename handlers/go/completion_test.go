package inboxd_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"inboxd"
)

// tests/languages of the repository has tests with pgx, database/sql and PostgreSQL.

// A tag is what Exec of a driver returns.
type tag struct{}

// A fakeTx records statements. fail has the errors of statements, COMMIT and ROLLBACK.
type fakeTx struct {
	statements [][]any
	fail       map[string]error
}

func (tx *fakeTx) Exec(_ context.Context, statement string, arguments ...any) (tag, error) {
	tx.statements = append(tx.statements, append([]any{statement}, arguments...))
	return tag{}, tx.fail["complete"]
}

func (tx *fakeTx) Commit(context.Context) error {
	tx.statements = append(tx.statements, []any{"COMMIT"})
	return tx.fail["COMMIT"]
}

func (tx *fakeTx) Rollback(ctx context.Context) error {
	tx.statements = append(tx.statements, []any{"ROLLBACK"})
	return errors.Join(ctx.Err(), tx.fail["ROLLBACK"])
}

// A fakePool gives one transaction.
type fakePool struct {
	tx  *fakeTx
	err error
}

func (p fakePool) Begin(context.Context) (*fakeTx, error) {
	return p.tx, p.err
}

func delivery(number int) *inboxd.Delivery {
	return &inboxd.Delivery{ID: fmt.Sprintf("d%d", number), Claim: fmt.Sprintf("%d.1.17", number), Event: inboxd.Event{Source: "s", ID: fmt.Sprint(number)}}
}

func expect(t *testing.T, tx *fakeTx, want ...[]any) {
	t.Helper()
	if !reflect.DeepEqual(tx.statements, want) {
		t.Errorf("got %q, want %q", tx.statements, want)
	}
}

func TestACompletionHasTheResultAndTheEvents(t *testing.T) {
	tx := &fakeTx{}
	plain, result, events := delivery(1), delivery(2), delivery(3)
	result.SetResult(object{"n": 1})
	err := errors.Join(events.Emit(inboxd.OutboxEvent{Topic: "t", Type: "made"}),
		plain.Complete(context.Background(), inboxd.PGX(tx)), result.Complete(context.Background(), inboxd.PGX(tx)), events.Complete(context.Background(), inboxd.PGX(tx)))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, tx,
		[]any{"SELECT inbox.complete($1::text)", "1.1.17"},
		[]any{"SELECT inbox.complete($1::text, $2::text::jsonb)", "2.1.17", `{"n":1}`},
		[]any{"SELECT inbox.complete($1::text, $2::text::jsonb, $3::text::jsonb)", "3.1.17", nil, `[{"topic":"t","type":"made"}]`})
}

func TestABatchIsCompletedByOneCall(t *testing.T) {
	tx := &fakeTx{}
	batch := &inboxd.Batch{Deliveries: []*inboxd.Delivery{delivery(1), delivery(2), delivery(3), delivery(4)}}
	batch.Deliveries[0].SetResult(`"\`)
	batch.Deliveries[1].SetVerdict(errBoom)
	if err := errors.Join(batch.Deliveries[2].Emit(inboxd.OutboxEvent{Topic: "t", Type: "made"}), batch.Complete(context.Background(), inboxd.PGX(tx))); err != nil {
		t.Fatal(err)
	}
	expect(t, tx,
		[]any{"SELECT inbox.complete($1::text, $2::text::jsonb, $3::text::jsonb)", "3.1.17", nil, `[{"topic":"t","type":"made"}]`},
		[]any{"SELECT inbox.complete($1::text::text[], $2::text::jsonb[])", `{"1.1.17","4.1.17"}`, `{"\"\\\"\\\\\"",NULL}`})
}

func TestABatchWithoutMessagesIsNotCompleted(t *testing.T) {
	tx := &fakeTx{}
	if err := (&inboxd.Batch{}).Complete(context.Background(), inboxd.PGX(tx)); err != nil {
		t.Error(err)
	}
	expect(t, tx)
}

func TestCompletePGXCommitsOrRollsBack(t *testing.T) {
	lost := &sqlError{"IB001", "inbox.complete: claim 1.1.17 is lost"}
	eof := errors.New("unexpected EOF")
	complete, commit, rollback := []any{"SELECT inbox.complete($1::text)", "1.1.17"}, []any{"COMMIT"}, []any{"ROLLBACK"}
	for name, test := range map[string]struct {
		fail       map[string]error // also of begin and of work
		statements [][]any
		want       object
	}{
		"nothing fails":           {nil, [][]any{complete, commit}, object{"status": "settled"}},
		"no connection":           {map[string]error{"begin": eof}, nil, object{"status": "snooze", "code": "DATABASE_AWAY", "delay_ms": 1000}},
		"no login":                {map[string]error{"begin": &sqlError{"28P01", "no"}}, nil, object{"status": "retry", "code": "28P01"}},
		"work fails":              {map[string]error{"work": errBoom}, [][]any{rollback}, object{"status": "retry", "code": "HANDLER_ERROR"}},
		"work has a verdict":      {map[string]error{"work": inboxd.Dead(errBoom), "ROLLBACK": eof}, [][]any{rollback}, object{"status": "dead"}},
		"work fails in SQL":       {map[string]error{"work": &sqlError{"23505", "twice"}, "ROLLBACK": eof}, [][]any{rollback}, object{"status": "retry", "code": "23505"}},
		"work loses the server":   {map[string]error{"work": eof, "ROLLBACK": eof}, [][]any{rollback}, object{"status": "snooze", "code": "DATABASE_AWAY", "delay_ms": 1000}},
		"work panics":             {map[string]error{"panic": eof}, [][]any{rollback}, object{"status": "retry", "code": "PANIC"}},
		"the claim is lost":       {map[string]error{"complete": lost}, [][]any{complete, rollback}, object{"status": "settled"}},
		"complete loses it":       {map[string]error{"complete": eof, "ROLLBACK": eof}, [][]any{complete, rollback}, object{"status": "snooze", "code": "DATABASE_AWAY", "delay_ms": 1000}},
		"COMMIT fails":            {map[string]error{"COMMIT": &sqlError{"23505", "twice"}}, [][]any{complete, commit}, object{"status": "retry", "code": "23505"}},
		"COMMIT is in doubt":      {map[string]error{"COMMIT": eof}, [][]any{complete, commit}, object{"status": "snooze", "code": "DATABASE_AWAY", "delay_ms": 1000}},
		"COMMIT meets a shutdown": {map[string]error{"COMMIT": &sqlError{"57P01", "bye"}}, [][]any{complete, commit}, object{"status": "snooze", "code": "57P01", "delay_ms": 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			tx := &fakeTx{fail: test.fail}
			s := newSidecar(t)
			s.start(on(func(ctx context.Context, d *inboxd.Delivery) error {
				return inboxd.CompletePGX(ctx, fakePool{tx, test.fail["begin"]}, d, func(*fakeTx) error {
					if err := test.fail["panic"]; err != nil {
						panic(err)
					}
					return test.fail["work"]
				})
			}))
			s.accept(nil)
			s.deliver(1, nil)
			answer := s.answer(1)
			delete(answer, "reason")
			equal(t, answer, test.want)
			expect(t, tx, test.statements...)
		})
	}
}

func TestARollbackDoesNotNeedTheContext(t *testing.T) {
	tx := &fakeTx{}
	ctx, cancel := context.WithCancel(context.Background())
	err := inboxd.CompletePGX(ctx, fakePool{tx: tx}, delivery(1), func(*fakeTx) error {
		cancel()
		return errBoom
	})
	if err != errBoom { //nolint:errorlint // it is not wrapped
		t.Error(err)
	}
	expect(t, tx, []any{"ROLLBACK"})
}

func TestALostClaimIsNamed(t *testing.T) {
	driver := &sqlError{"IB001", "ERROR: inbox.complete: claim 1.1.17 is lost (SQLSTATE IB001)"}
	err := delivery(1).Complete(context.Background(), inboxd.PGX(&fakeTx{fail: map[string]error{"complete": driver}}))
	var lost *inboxd.ClaimLostError
	if !errors.As(err, &lost) || lost.Claim != "1.1.17" || !errors.Is(err, driver) {
		t.Errorf("Complete returned %v", err)
	}
}

func TestWhatARolledBackTransactionSaidIsForgotten(t *testing.T) {
	d := delivery(1)
	before := d.Emit(inboxd.OutboxEvent{Topic: "t", Type: "before"})
	d.SetResult(1)
	for _, fail := range []map[string]error{{"work": errBoom}, {"complete": errBoom}, {"COMMIT": errBoom}, nil} {
		tx := &fakeTx{fail: fail}
		err := inboxd.CompletePGX(context.Background(), fakePool{tx: tx}, d, func(*fakeTx) error {
			d.SetResult(2)
			return errors.Join(d.Emit(inboxd.OutboxEvent{Topic: "t", Type: "made"}), fail["work"])
		})
		if (err == nil) != (fail == nil) || before != nil {
			t.Fatal(before, err)
		}
		if fail["work"] == nil {
			equal(t, tx.statements[0][2:], []any{"2", `[{"topic":"t","type":"before"},{"topic":"t","type":"made"}]`})
		}
	}
}

func TestACompletionThatDidNotCommitDoesNotDecide(t *testing.T) {
	s := newSidecar(t)
	tx := &fakeTx{fail: map[string]error{"COMMIT": errBoom}}
	s.start(func(h *inboxd.Handler) {
		h.On(inboxd.Types("single"), func(ctx context.Context, d *inboxd.Delivery) error {
			_ = inboxd.CompletePGX(ctx, fakePool{tx: tx}, d, func(*fakeTx) error { return nil })
			return nil // it succeeds in another way
		})
		h.OnBatch(inboxd.Types("batch"), func(ctx context.Context, b *inboxd.Batch) error {
			_ = inboxd.CompletePGX(ctx, fakePool{tx: tx}, b, func(*fakeTx) error { return nil })
			return nil
		})
	}, inboxd.Batches(10, 0))
	s.accept(nil)
	s.deliver(1, object{"type": "single"})
	equal(t, s.answer(1), object{"status": "done"})
	s.batch(object{"type": "batch"}, object{"type": "batch"})
	equal(t, s.statuses(), []string{"done", "done"})
}

func TestACompletionOutsideOfATransactionIsRefused(t *testing.T) {
	var statements []string
	pool := inboxd.TxFunc(func(_ context.Context, statement string, _ ...any) error {
		statements = append(statements, statement)
		return &sqlError{"25P01", "SAVEPOINT can only be used in transaction blocks"}
	})
	for _, message := range []inboxd.Completer{delivery(1), &inboxd.Batch{Deliveries: []*inboxd.Delivery{delivery(2)}}} {
		if err := message.Complete(context.Background(), pool); err == nil || !strings.Contains(err.Error(), "open transaction") {
			t.Errorf("Complete returned %v", err)
		}
	}
	equal(t, statements, []string{"SAVEPOINT inboxd", "SAVEPOINT inboxd"})
}

func TestVerdictsOfARolledBackTransaction(t *testing.T) {
	s := newSidecar(t)
	tx := &fakeTx{fail: map[string]error{"COMMIT": errBoom}}
	s.start(onBatch(func(ctx context.Context, b *inboxd.Batch) error {
		return inboxd.CompletePGX(ctx, fakePool{tx: tx}, b, func(tx *fakeTx) error {
			b.Deliveries[0].SetVerdict(inboxd.Dead(errBoom))
			b.Deliveries[1].SetVerdict(nil) // completed alone
			return b.Deliveries[1].Complete(ctx, inboxd.PGX(tx))
		})
	}))
	s.accept(nil)
	s.batch(nil, nil, nil)
	equal(t, s.statuses(), []string{"dead", "snooze", "snooze"})
}

func TestATransactionIsRepeated(t *testing.T) {
	for state, test := range map[string]struct {
		options []inboxd.TxOption
		begun   int
		answer  object
	}{
		"40001": {nil, 5, object{"status": "snooze", "code": "40001", "delay_ms": 1000}},
		"40P01": {[]inboxd.TxOption{inboxd.Repeats(1)}, 2, object{"status": "snooze", "code": "40P01", "delay_ms": 1000}},
		"23505": {nil, 1, object{"status": "retry", "code": "23505"}},
	} {
		t.Run(state, func(t *testing.T) {
			tx := &fakeTx{fail: map[string]error{"COMMIT": &sqlError{state, "no"}}}
			s := newSidecar(t)
			s.start(on(func(ctx context.Context, d *inboxd.Delivery) error {
				return inboxd.CompletePGX(ctx, fakePool{tx: tx}, d, func(*fakeTx) error {
					return d.Emit(inboxd.OutboxEvent{Topic: "t", Type: "made"})
				}, append(test.options, inboxd.Isolation(sql.LevelSerializable))...)
			}))
			s.accept(nil)
			s.deliver(1, nil)
			answer := s.answer(1)
			delete(answer, "reason")
			equal(t, answer, test.answer)
			if want := 3 * test.begun; len(tx.statements) != want {
				t.Errorf("%d statements, want %d: %q", len(tx.statements), want, tx.statements)
			}
			equal(t, tx.statements[0], []any{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"})
			equal(t, tx.statements[len(tx.statements)-2][3], `[{"topic":"t","type":"made"}]`)
		})
	}
}

func TestAnIsolationLevelIsOneOfPostgreSQL(t *testing.T) {
	tx := &fakeTx{}
	err := inboxd.CompletePGX(context.Background(), fakePool{tx: tx}, delivery(1), func(*fakeTx) error { return nil }, inboxd.Isolation(sql.LevelSnapshot))
	if err == nil || !strings.Contains(err.Error(), "Snapshot") {
		t.Errorf("CompletePGX returned %v", err)
	}
	expect(t, tx)
}
