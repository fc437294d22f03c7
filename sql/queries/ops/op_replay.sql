-- Replays one message, for one consumer or for all.
-- Caller: ops/replay.c. Index: inbox_messages_pkey.
-- $1 source, $2 event id, $3 reason, $4 consumer (NULL = all), $5 the rows that were confirmed (op_find; NULL = any). Back:
-- whether.
SELECT inbox.replay($1::text, $2::text, $3::text, $4::text, $5::jsonb)
