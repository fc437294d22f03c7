-- Deletes a portion of the messages that were processed long ago.
-- Caller: ops/purge.c. Index: inbox_messages_seq_key.
-- $1 age in ms, $2 most rows. Back: how many.
SELECT inbox.purge($1::bigint * interval '1 millisecond', $2::int)
