-- How many events of one page fit a filter; the columns as in op_count.
-- Caller: ops/replay.c. Index: outbox_pkey (inbox.outbox_page()).
-- $1 name for errors, $2 filter, $3 states it may name, $4 most rows, $5 behind this seq, $6 false.
SELECT cardinality(p.seqs), p.last_seq
FROM inbox.outbox_page(inbox.check_outbox_filter($1::text, $2::jsonb, $3::text[]), $5::bigint, $4::int) p
WHERE NOT $6::boolean
