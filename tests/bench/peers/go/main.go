// The batch consumer a strong engineer would write by hand: franz-go, pgx, arrays, in-process no-op handler.
//
//	VARIANT=inline  stores a batch as processed and handles it before COMMIT: no queue, no retries
//	VARIANT=tx      stores a batch, and two workers claim rows in open transactions and handle them
//
// BOOTSTRAP, TOPIC, GROUP and DSN say where. Offsets are committed after the batch is. Ends on SIGTERM.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batchSize = 2000
	claimSize = 500
	workers   = 2
	idle      = 5 * time.Millisecond
)

const table = `CREATE TABLE peer_inbox (
	seq bigint GENERATED ALWAYS AS IDENTITY,
	event_id uuid PRIMARY KEY,
	event_type text, kafka_partition int, kafka_offset bigint, key bytea, payload bytea,
	received_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz) WITH (fillfactor = 50)`

const waiting = `CREATE INDEX ON peer_inbox (seq) WHERE processed_at IS NULL`

const insert = `INSERT INTO peer_inbox
	(event_id, event_type, kafka_partition, kafka_offset, key, payload, processed_at)
	SELECT i.*, CASE WHEN $7 THEN now() END
	FROM unnest($1::uuid[], $2::text[], $3::int[], $4::bigint[], $5::bytea[], $6::bytea[]) AS i
	ON CONFLICT (event_id) DO NOTHING RETURNING event_id`

const claim = `SELECT event_id, payload FROM peer_inbox WHERE processed_at IS NULL
	ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED`

const complete = `UPDATE peer_inbox SET processed_at = now() WHERE event_id = ANY($1)`

type batch struct {
	ids, types  []string
	partitions  []int32
	offsets     []int64
	keys, bytes [][]byte
}

func (b *batch) add(r *kgo.Record) {
	id, kind := "", ""
	for _, h := range r.Headers {
		switch h.Key {
		case "id":
			id = string(h.Value)
		case "eventType":
			kind = string(h.Value)
		}
	}
	b.ids = append(b.ids, id)
	b.types = append(b.types, kind)
	b.partitions = append(b.partitions, r.Partition)
	b.offsets = append(b.offsets, r.Offset)
	b.keys = append(b.keys, r.Key)
	b.bytes = append(b.bytes, r.Value)
}

func handle(payload []byte) {}

// store writes a batch; inline, its new rows are handled before they are committed.
func store(ctx context.Context, pool *pgxpool.Pool, b *batch, inline bool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insert, b.ids, b.types, b.partitions, b.offsets, b.keys, b.bytes, inline)
		if err != nil {
			return err
		}
		fresh, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if inline {
			for range fresh {
				handle(nil)
			}
		}
		return err
	})
}

func consume(ctx context.Context, client *kgo.Client, pool *pgxpool.Pool, inline bool) error {
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, batchSize)
		if err := fetches.Err0(); err != nil && ctx.Err() == nil {
			return err
		}
		b := batch{}
		fetches.EachRecord(b.add)
		if len(b.ids) == 0 {
			continue
		}
		if err := store(ctx, pool, &b, inline); err != nil {
			return err
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	return nil
}

// claimOnce handles what waits, inside one transaction; says how many rows that were.
func claimOnce(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	var ids [][16]byte
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, claim, claimSize)
		if err != nil {
			return err
		}
		var id [16]byte
		var payload []byte
		if _, err = pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
			handle(payload)
			ids = append(ids, id)
			return nil
		}); err != nil || len(ids) == 0 {
			return err
		}
		_, err = tx.Exec(ctx, complete, ids)
		return err
	})
	return len(ids), err
}

func work(ctx context.Context, pool *pgxpool.Pool) error {
	for ctx.Err() == nil {
		count, err := claimOnce(ctx, pool)
		if err != nil {
			return err
		}
		if count == 0 {
			time.Sleep(idle)
		}
	}
	return nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	inline := os.Getenv("VARIANT") == "inline"
	config, err := pgxpool.ParseConfig(os.Getenv("DSN"))
	must(err)
	// The table is new: plans made while it is empty would read all of it for ever.
	config.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	must(err)
	_, err = pool.Exec(ctx, table)
	must(err)
	if !inline {
		_, err = pool.Exec(ctx, waiting)
		must(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("BOOTSTRAP")), kgo.ConsumerGroup(os.Getenv("GROUP")),
		kgo.ConsumeTopics(os.Getenv("TOPIC")), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(err)

	var group sync.WaitGroup
	start := func(run func() error) {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := run(); err != nil && ctx.Err() == nil {
				log.Fatal(err)
			}
		}()
	}
	start(func() error { return consume(ctx, client, pool, inline) })
	for i := 0; i < workers && !inline; i++ {
		start(func() error { return work(ctx, pool) })
	}
	group.Wait()
	client.Close()
	pool.Close()
}
