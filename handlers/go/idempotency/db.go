package idempotency

import (
	"context"
	"database/sql"
	"net/http"
	"time"
)

const rollbackTimeout = 5 * time.Second

// A DB begins transactions. [PGX] and [SQL] make one of the pool of a driver.
type DB struct {
	begin func(ctx context.Context) (*transaction, error)
}

// A transaction is one that has begun. tx is that of the driver.
type transaction struct {
	tx               any
	query            func(ctx context.Context, statement string, arguments ...any) Row
	commit, rollback func(ctx context.Context) error
}

// rollBack is for the end of a request, whose context may have ended.
func (t *transaction) rollBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = t.rollback(ctx) // without a connection there is nothing to roll back
}

// A Row is one row of a result, as pgx and database/sql have it.
type Row interface {
	Scan(dest ...any) error
}

// PGXTx is a transaction of pgx: its type Tx has these methods. R is the type Row there, so this package needs no pgx.
type PGXTx[R Row] interface {
	QueryRow(ctx context.Context, sql string, arguments ...any) R
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// PGX returns a pool of pgx as a [DB].
func PGX[T PGXTx[R], R Row](pool interface {
	Begin(ctx context.Context) (T, error)
}) DB {
	return DB{func(ctx context.Context) (*transaction, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		query := func(ctx context.Context, statement string, arguments ...any) Row {
			return tx.QueryRow(ctx, statement, arguments...)
		}
		return &transaction{tx, query, tx.Commit, tx.Rollback}, nil
	}}
}

// SQL returns a pool of database/sql as a [DB].
func SQL(db *sql.DB) DB {
	return DB{func(ctx context.Context) (*transaction, error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		query := func(ctx context.Context, statement string, arguments ...any) Row {
			return tx.QueryRowContext(ctx, statement, arguments...)
		}
		commit := func(context.Context) error { return tx.Commit() }
		rollback := func(context.Context) error { return tx.Rollback() }
		return &transaction{tx, query, commit, rollback}, nil
	}}
}

type txKey struct{}

// Tx returns the transaction of the request: Tx[pgx.Tx](r), or Tx[*sql.Tx](r). It panics in a handler without the middleware, and with
// the type of another driver.
func Tx[T any](r *http.Request) T {
	return r.Context().Value(txKey{}).(T)
}
