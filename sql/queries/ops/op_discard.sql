-- Discards one message.
-- Caller: ops/replay.c. Index: inbox_messages_pkey.
-- $1 source, $2 event id, $3 reason. Back: whether.
SELECT inbox.discard($1::text, $2::text, $3::text)
