-- Makes the waiting retry of one message due now, for one consumer or for all.
-- Caller: ops/replay.c. Index: inbox_messages_pkey.
-- $1 source, $2 event id, $3 reason, $4 consumer (NULL = all). Back: whether a row changed.
SELECT inbox.retry_now($1::text, $2::text, $3::text, $4::text)
