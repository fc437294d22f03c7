-- Copies a page of messages to a consumer. If another page follows, the COMMIT does not wait for the disk, because the load
-- waits for the same disk. The COMMIT of the last page waits, if the page has a copy, also for the pages before it. After a crash
-- of the server, a backfill that was interrupted can lack its last copies; the same command makes them again. The setting
-- ends with the transaction.
-- Caller: ops/backfill.c. Index: inbox_messages_seq_key, inbox_messages_pkey (inbox.copy_rows()).
-- $1 filter, $2 after this seq, $3 most rows, $4 reason, $5 another page follows if this one is not the end.
-- Back: how many, last seq seen (NULL: the end), the setting.
SELECT affected, last_seq,
       CASE WHEN $5::boolean AND last_seq IS NOT NULL THEN set_config('synchronous_commit', 'off', true) END
FROM inbox.backfill_page($1::jsonb, $2::bigint, $3::int, $4::text)
