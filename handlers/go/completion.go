package inboxd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

const (
	rollbackTimeout = 5 * time.Second
	defaultRepeats  = 4
	firstPause      = 20 * time.Millisecond
)

// A Tx executes a statement in an open transaction. [PGX] and [SQL] make one of the transaction of a driver.
type Tx interface {
	Exec(ctx context.Context, statement string, arguments ...any) error
}

// TxFunc is a [Tx] for any other library. Complete asks PostgreSQL whether it has an open transaction, by the statement SAVEPOINT.
type TxFunc func(ctx context.Context, statement string, arguments ...any) error

// Exec calls the function.
func (f TxFunc) Exec(ctx context.Context, statement string, arguments ...any) error {
	return f(ctx, statement, arguments...)
}

// driverTx is a [Tx] of a type that only a transaction has.
type driverTx struct{ TxFunc }

// PGXTx is a transaction of pgx: its type Tx has these methods. Tag is pgconn.CommandTag there, so this library needs no pgx. A pool or
// a connection is no PGXTx, because a completion outside of a transaction would commit before the effects.
type PGXTx[Tag any] interface {
	Exec(ctx context.Context, sql string, arguments ...any) (Tag, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// SQLTx is a transaction of database/sql: [*sql.Tx] has these methods.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// PGX returns a transaction of pgx as a [Tx].
func PGX[Tag any](tx PGXTx[Tag]) Tx {
	return driverTx{func(ctx context.Context, statement string, arguments ...any) error {
		_, err := tx.Exec(ctx, statement, arguments...)
		return err
	}}
}

// SQL returns a transaction of database/sql as a [Tx].
func SQL(tx SQLTx) Tx {
	return driverTx{func(ctx context.Context, statement string, arguments ...any) error {
		_, err := tx.ExecContext(ctx, statement, arguments...)
		return err
	}}
}

// A Completer is a [*Delivery] or a [*Batch].
type Completer interface {
	Complete(ctx context.Context, tx Tx) error
}

// Complete completes the message in a transaction of your own, with the result and the events that SetResult and Emit have set: the
// effects of the transaction and the completion commit together, or neither. Then commit, and return nil.
//
// If Complete returns an error, roll back and return the error. It is a [*ClaimLostError] if the message is not yours any more.
func (d *Delivery) Complete(ctx context.Context, tx Tx) error {
	var err error
	switch {
	case d.events != nil:
		err = d.call(ctx, tx, "SELECT inbox.complete($1::text, $2::text::jsonb, $3::text::jsonb)", d.Claim, orNull(d.result), "["+string(d.events)+"]")
	case d.result != nil:
		err = d.call(ctx, tx, "SELECT inbox.complete($1::text, $2::text::jsonb)", d.Claim, string(d.result))
	default:
		err = d.call(ctx, tx, "SELECT inbox.complete($1::text)", d.Claim)
	}
	if err != nil {
		return err
	}
	d.completed = true
	return nil
}

// Complete completes, in a transaction of your own, every message that has no verdict by [Delivery.SetVerdict]: all of them or none. See
// [Delivery.Complete].
func (b *Batch) Complete(ctx context.Context, tx Tx) error {
	var together []*Delivery
	for d := range b.All() {
		switch {
		case d.decided:
		case d.events != nil: // there is no call for several messages with events
			if err := d.Complete(ctx, tx); err != nil {
				return err
			}
		default:
			together = append(together, d)
		}
	}
	if len(together) == 0 {
		return nil
	}
	claims, results := make([]any, len(together)), make([]any, len(together))
	for i, d := range together {
		claims[i], results[i] = d.Claim, orNull(d.result)
	}
	// As texts, because the drivers have different types for arrays.
	if err := together[0].call(ctx, tx, "SELECT inbox.complete($1::text::text[], $2::text::jsonb[])", arrayOf(claims), arrayOf(results)); err != nil {
		return err
	}
	for _, d := range together {
		d.completed = true
	}
	return nil
}

// call executes a statement that completes.
func (d *Delivery) call(ctx context.Context, tx Tx, statement string, arguments ...any) error {
	if _, isOpen := tx.(driverTx); !isOpen {
		if err := requireTransaction(ctx, tx); err != nil {
			return orLost(err)
		}
	}
	if d.session != nil && d.session.isTest {
		return nil
	}
	return orLost(tx.Exec(ctx, statement, arguments...))
}

// requireTransaction asks PostgreSQL, because the library does not know the driver. Without a transaction the completion would commit
// alone, before the effects.
func requireTransaction(ctx context.Context, tx Tx) error {
	err := tx.Exec(ctx, "SAVEPOINT inboxd")
	switch {
	case err == nil:
		return tx.Exec(ctx, "RELEASE SAVEPOINT inboxd")
	case sqlState(err) == sqlNoTransaction:
		return fmt.Errorf("inboxd: Complete and Emit need an open transaction: %w", err)
	}
	return err
}

// A TxOption changes the transaction of [CompletePGX] and [CompleteSQL].
type TxOption func(*txOptions)

type txOptions struct {
	isolation sql.IsolationLevel
	repeats   int
}

// Isolation is the isolation level: [sql.LevelReadCommitted], [sql.LevelRepeatableRead] or [sql.LevelSerializable]. Without it, the
// database decides.
func Isolation(level sql.IsolationLevel) TxOption {
	return func(o *txOptions) { o.isolation = level }
}

// Repeats is how often the transaction is repeated at most after a serialization failure or a deadlock (40001, 40P01). Without it: 4.
// After the last one the message comes again after a second, and no attempt is spent.
func Repeats(n int) TxOption {
	return func(o *txOptions) { o.repeats = n }
}

// CompletePGX begins a transaction of pgx, calls work, completes the message or the batch in the same transaction, and commits: the
// effects and the completion commit together, or neither. If anything fails, it rolls back and returns an error; return this error.
//
// It is a [Snooze] if the connection failed: the message comes again after a second, and no attempt is spent.
//
// After a serialization failure or a deadlock, CompletePGX begins again, and calls work again ([Repeats]). So work must not rely on
// what an earlier call of it has left in variables.
//
// pool is a pgxpool.Pool or a pgx.Conn of the database that has the inbox.
func CompletePGX[T PGXTx[Tag], Tag any](ctx context.Context, pool interface {
	Begin(ctx context.Context) (T, error)
}, message Completer, work func(tx T) error, options ...TxOption) error {
	return complete(ctx, message, options, func() (transaction, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return transaction{}, orAway(err)
		}
		return transaction{tx: PGX[Tag](tx), work: func() error { return work(tx) }, commit: tx.Commit, rollback: tx.Rollback}, nil
	})
}

// CompleteSQL is [CompletePGX] for database/sql. db is a [*sql.DB] or a [*sql.Conn].
func CompleteSQL(ctx context.Context, db interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}, message Completer, work func(tx *sql.Tx) error, options ...TxOption) error {
	return complete(ctx, message, options, func() (transaction, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return transaction{}, orAway(err)
		}
		commit := func(context.Context) error { return tx.Commit() }
		rollback := func(context.Context) error { return tx.Rollback() }
		return transaction{tx: SQL(tx), work: func() error { return work(tx) }, commit: commit, rollback: rollback}, nil
	})
}

// complete runs the transaction, and repeats it.
func complete(ctx context.Context, message Completer, options []TxOption, begin func() (transaction, error)) error {
	o := txOptions{repeats: defaultRepeats}
	for _, change := range options {
		change(&o)
	}
	isolate := ""
	switch o.isolation {
	case sql.LevelDefault:
	case sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable:
		isolate = "SET TRANSACTION ISOLATION LEVEL " + strings.ToUpper(o.isolation.String())
	default:
		return fmt.Errorf("inboxd: PostgreSQL has no isolation level %s", o.isolation)
	}
	for pause := firstPause; ; pause *= 2 {
		tx, err := begin()
		if err == nil {
			err = tx.run(ctx, message, isolate)
		}
		if o.repeats <= 0 || !isRepeated(err) {
			return err
		}
		o.repeats--
		select {
		case <-ctx.Done():
			return err
		case <-time.After(rand.N(pause)):
		}
	}
}

// isRepeated is true for a failure that another transaction has caused, and that is over. A verdict of the function counts instead.
func isRepeated(err error) bool {
	var v *Verdict
	state := sqlState(err)
	return (state == "40001" || state == "40P01") && !errors.As(err, &v)
}

// A transaction is one that has begun.
type transaction struct {
	tx       Tx
	work     func() error
	commit   func(context.Context) error
	rollback func(context.Context) error
}

func (t transaction) run(ctx context.Context, message Completer, isolate string) (err error) {
	forget := remember(message)
	ended, committed := false, false
	defer func() { // also if work panics
		if !ended {
			err = t.fail(ctx, err)
		}
		if !committed {
			forget()
		}
	}()
	if isolate != "" {
		if err := t.tx.Exec(ctx, isolate); err != nil {
			return orAway(err)
		}
	}
	if err := t.work(); err != nil {
		return err
	}
	if err := message.Complete(ctx, t.tx); err != nil {
		return orAway(err)
	}
	ended = true
	err = orAway(t.commit(ctx))
	committed = err == nil
	return err
}

// remember returns a function that forgets what is said about the message from now on.
func remember(message Completer) (forget func()) {
	if m, ok := message.(interface{ remember() func() }); ok {
		return m.remember()
	}
	return func() {}
}

// fail rolls back. If even this fails, the connection is lost, and the message did not cause the error.
func (t transaction) fail(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	var v *Verdict
	if t.rollback(ctx) == nil || err == nil || errors.As(err, &v) || sqlState(err) != "" {
		return err
	}
	return away(err)
}

// orAway returns the verdict for a failure of the connection: one without SQLSTATE.
func orAway(err error) error {
	var v *Verdict
	if err == nil || sqlState(err) != "" || errors.As(err, &v) {
		return err
	}
	return away(err)
}

var claimIsLost = regexp.MustCompile(`claim (\S+) is lost`)

func orLost(err error) error {
	if err == nil || sqlState(err) != sqlClaimLost {
		return err
	}
	lost := &ClaimLostError{Err: err}
	if found := claimIsLost.FindStringSubmatch(err.Error()); found != nil {
		lost.Claim = found[1]
	}
	return lost
}

func orNull(result []byte) any {
	if result == nil {
		return nil
	}
	return string(result)
}

var arrayEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// arrayOf returns texts, nil for NULL, as PostgreSQL writes an array.
func arrayOf(items []any) string {
	var text strings.Builder
	for i, item := range items {
		if i > 0 {
			text.WriteByte(',')
		}
		if value, ok := item.(string); ok {
			text.WriteString(`"` + arrayEscapes.Replace(value) + `"`)
		} else {
			text.WriteString("NULL")
		}
	}
	return "{" + text.String() + "}"
}
