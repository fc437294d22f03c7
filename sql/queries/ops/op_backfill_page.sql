-- Copies a page of messages to a consumer.
-- Caller: ops/backfill.c. Index: inbox_messages_seq_key, inbox_messages_pkey (inbox.copy_rows()).
-- $1 filter, $2 after this seq, $3 most rows, $4 reason. Back: how many, last seq seen (NULL: the end).
SELECT affected, last_seq FROM inbox.backfill_page($1::jsonb, $2::bigint, $3::int, $4::text)
