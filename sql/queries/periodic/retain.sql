-- Deletes a batch of rows of each kind whose retention is over, or drops their payloads. Bounded; never waits for a row.
-- Caller: store/periodic/retain_batch.c, batch by batch. Index: inbox_messages_seq_key, inbox_messages_dead.
-- $1 own id, $2 the kinds, $3 their ages in ms, $4 rows looked at of each, at most.
-- Back, for each kind in their order: whether this instance runs retention, rows affected, whether more may follow at once, rows refused,
-- the first of them, its error.
SELECT r.elected, r.affected, r.more, r.refused, r.refused_row, r.refused_why
FROM unnest($2::text[], $3::bigint[], $4::int[]) WITH ORDINALITY AS k(what, age_ms, max_rows, n)
CROSS JOIN LATERAL inbox.retain($1::int, k.what, k.age_ms, k.max_rows, true) r
ORDER BY k.n
