-- Replays a page of events.
-- Caller: ops/replay.c. Index: outbox_pkey (inbox.outbox_page()).
-- $1 filter, $2 after this seq, $3 most rows, $4 reason. Back: how many, last seq seen (NULL: the end).
SELECT affected, last_seq FROM inbox.outbox_replay_page($1::jsonb, $2::bigint, $3::int, $4::text)
