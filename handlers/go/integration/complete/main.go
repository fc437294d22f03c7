// Complete completes messages that a handler has: complete DRIVER FUNCTION. tests/languages of the repository calls it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"inboxd"
)

var (
	ctx         = context.Background()
	errRollback = errors.New("roll back")
)

// A driver has what the functions need of pgx, and of database/sql.
type driver interface {
	// inTx commits unless work fails.
	inTx(work func(tx inboxd.Tx) error) error
	complete(message inboxd.Completer, work func(tx inboxd.Tx) error, options ...inboxd.TxOption) error
}

type pgxDriver struct{ *pgxpool.Pool }

func (d pgxDriver) inTx(work func(inboxd.Tx) error) error {
	return pgx.BeginFunc(ctx, d.Pool, func(tx pgx.Tx) error { return work(inboxd.PGX(tx)) })
}

func (d pgxDriver) complete(message inboxd.Completer, work func(inboxd.Tx) error, options ...inboxd.TxOption) error {
	return inboxd.CompletePGX(ctx, d.Pool, message, func(tx pgx.Tx) error { return work(inboxd.PGX(tx)) }, options...)
}

type sqlDriver struct{ *sql.DB }

func (d sqlDriver) inTx(work func(inboxd.Tx) error) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := work(inboxd.SQL(tx)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (d sqlDriver) complete(message inboxd.Completer, work func(inboxd.Tx) error, options ...inboxd.TxOption) error {
	return inboxd.CompleteSQL(ctx, d.DB, message, func(tx *sql.Tx) error { return work(inboxd.SQL(tx)) }, options...)
}

type gormDriver struct{ *gorm.DB }

func (d gormDriver) inTx(work func(inboxd.Tx) error) error {
	return d.Transaction(func(tx *gorm.DB) error {
		return work(inboxd.TxFunc(func(ctx context.Context, statement string, arguments ...any) error {
			return tx.WithContext(ctx).Exec(statement, arguments...).Error
		}))
	})
}

func (d gormDriver) complete(message inboxd.Completer, work func(inboxd.Tx) error, _ ...inboxd.TxOption) error {
	return d.inTx(func(tx inboxd.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		return message.Complete(ctx, tx)
	})
}

type sqlxDriver struct{ *sqlx.DB }

func (d sqlxDriver) inTx(work func(inboxd.Tx) error) error {
	tx, err := d.Beginx()
	if err != nil {
		return err
	}
	if err := work(inboxd.SQL(tx)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func (d sqlxDriver) complete(message inboxd.Completer, work func(inboxd.Tx) error, options ...inboxd.TxOption) error {
	return inboxd.CompleteSQL(ctx, d.DB, message, func(tx *sql.Tx) error { return work(inboxd.SQL(tx)) }, options...)
}

func delivery(number int) *inboxd.Delivery {
	return &inboxd.Delivery{Claim: fmt.Sprintf("%d.1.17", 9000+number), Event: inboxd.Event{ID: fmt.Sprintf("m%d", number), Source: "s"}}
}

func batch(numbers ...int) *inboxd.Batch {
	b := &inboxd.Batch{}
	for _, number := range numbers {
		b.Deliveries = append(b.Deliveries, delivery(number))
	}
	return b
}

func createEffects(tx inboxd.Tx) error {
	return tx.Exec(ctx, "CREATE TABLE effects ()")
}

func nothing(inboxd.Tx) error {
	return nil
}

var functions = map[string]func(driver) (string, error){
	"ownTransaction": func(db driver) (string, error) {
		one, two := delivery(1), delivery(2)
		one.SetResult(map[string]int{"invoice": 1})
		return "", db.inTx(func(tx inboxd.Tx) error { return errors.Join(one.Complete(ctx, tx), two.Complete(ctx, tx)) })
	},
	"transaction": func(db driver) (string, error) {
		d := delivery(1)
		d.SetResult(map[string]string{"table": "effects"})
		return "", db.complete(d, createEffects)
	},
	"events": func(db driver) (string, error) {
		d := delivery(1)
		err := d.Emit(
			inboxd.OutboxEvent{Type: "made", Topic: "invoices", Key: "c-1", Data: map[string]int{"n": 1}, Headers: map[string]string{"h": "1"}},
			inboxd.OutboxEvent{Type: "raw", Topic: "invoices", Data: []byte{255}})
		return "", errors.Join(err, db.complete(d, nothing))
	},
	"batch": func(db driver) (string, error) {
		b := batch(1, 2, 3)
		b.Deliveries[0].SetResult(map[string]any{"n": 1, "text": `"\,{}`})
		b.Deliveries[1].SetVerdict(inboxd.Skip())
		return "", db.inTx(func(tx inboxd.Tx) error { return b.Complete(ctx, tx) })
	},
	"batchWithEvents": func(db driver) (string, error) {
		b := batch(1, 2)
		err := b.Deliveries[1].Emit(inboxd.OutboxEvent{Type: "made", Topic: "invoices"})
		return "", errors.Join(err, db.complete(b, nothing))
	},
	"repeatedBatch": func(db driver) (string, error) {
		b := batch(1, 2, 3)
		err := db.inTx(func(tx inboxd.Tx) error { return errors.Join(b.Deliveries[1].Complete(ctx, tx), errRollback) })
		if !errors.Is(err, errRollback) {
			return "", err
		}
		return "", db.inTx(func(tx inboxd.Tx) error { return b.Complete(ctx, tx) })
	},
	"lost": func(db driver) (string, error) {
		var lost *inboxd.ClaimLostError
		if err := db.complete(batch(1, 7), createEffects); !errors.As(err, &lost) {
			return "", fmt.Errorf("no lost claim: %w", err)
		}
		return "lost " + lost.Claim, nil
	},
	// Another transaction changes a row between the snapshot and the UPDATE of the first try: 40001.
	"repeated": func(db driver) (string, error) {
		d, tries := delivery(1), 0
		interfere := func(statement string) error {
			return db.inTx(func(tx inboxd.Tx) error { return tx.Exec(ctx, statement) })
		}
		work := func(tx inboxd.Tx) error {
			if tries++; tries == 1 {
				if err := errors.Join(tx.Exec(ctx, "SELECT 1"), interfere("UPDATE counters SET n = n + 1")); err != nil {
					return err
				}
			}
			d.SetResult(map[string]int{"tries": tries})
			return errors.Join(d.Emit(inboxd.OutboxEvent{Type: "made", Topic: "invoices"}), tx.Exec(ctx, "UPDATE counters SET n = n + 1"))
		}
		if err := interfere("CREATE TABLE counters AS SELECT 0 AS n"); err != nil {
			return "", err
		}
		var state interface{ SQLState() string }
		if err := db.complete(d, work, inboxd.Isolation(sql.LevelRepeatableRead), inboxd.Repeats(0)); !errors.As(err, &state) || state.SQLState() != "40001" {
			return "", fmt.Errorf("no serialization failure: %w", err)
		}
		tries = 0
		return "", db.complete(d, work, inboxd.Isolation(sql.LevelSerializable))
	},
	"emit": func(db driver) (string, error) {
		return "", db.inTx(func(tx inboxd.Tx) error {
			return errors.Join(
				inboxd.Emit(ctx, tx, inboxd.OutboxEvent{Type: "made", Topic: "invoices", Key: "k", Data: map[string]int{"n": 1}, Headers: map[string]string{"h": "1"}}),
				inboxd.Emit(ctx, tx, inboxd.OutboxEvent{Type: "raw", Aggregate: "mail", Key: "k", Data: []byte{255, 0}, ID: "e-1"}),
				inboxd.Emit(ctx, tx, inboxd.OutboxEvent{Type: "gone", Topic: "invoices", Key: "k"}))
		})
	},
	"outside": func(db driver) (string, error) {
		g, ok := db.(gormDriver)
		if !ok {
			return "refused", nil // by the compiler
		}
		err := delivery(1).Complete(ctx, inboxd.TxFunc(func(_ context.Context, statement string, arguments ...any) error {
			return g.Exec(statement, arguments...).Error
		}))
		if err == nil || !strings.Contains(err.Error(), "open transaction") {
			return "", fmt.Errorf("not refused: %w", err)
		}
		return "refused", nil
	},
	"panic": func(db driver) (said string, err error) {
		defer func() { said = fmt.Sprint(recover()) }()
		return "", db.complete(delivery(1), func(tx inboxd.Tx) error {
			if err := createEffects(tx); err != nil {
				return err
			}
			panic("bug")
		})
	},
}

func main() {
	pool, err := pgxpool.New(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	db, err := sql.Open("pgx", "")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		log.Fatal(err) //nolint:gocritic // the process ends
	}
	drivers := map[string]driver{"pgx": pgxDriver{pool}, "sql": sqlDriver{db}, "gorm": gormDriver{g}, "sqlx": sqlxDriver{sqlx.NewDb(db, "pgx")}}
	said, err := functions[os.Args[2]](drivers[os.Args[1]])
	if err != nil {
		log.Fatal(err) //nolint:gocritic // the process ends
	}
	fmt.Println(said)
}
