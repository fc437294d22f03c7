-- Deletes a batch of rows whose retention is over, or drops their payloads. Bounded; never waits for a row.
-- Caller: store/periodic/retain_batch.c, batch by batch. Index: inbox_messages_seq_key, inbox_messages_dead.
-- $1 own id, $2 what, $3 age in ms, $4 rows looked at, at most.
-- Back: whether this instance runs retention, rows affected, whether more may follow at once, rows refused, the first of them, its error.
SELECT r.elected, r.affected, r.more, r.refused, r.refused_row, r.refused_why
FROM inbox.retain($1::int, $2::text, $3::bigint, $4::int, true) r
