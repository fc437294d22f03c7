-- Makes a page of waiting retries due now.
-- Caller: ops/replay.c. Index: what serves the status (inbox.look_page()).
-- $1 filter, $2 after this seq, $3 most rows, $4 reason. Back: how many, last seq seen (NULL: the end).
SELECT affected, last_seq FROM inbox.retry_page($1::jsonb, $2::bigint, $3::int, $4::text)
