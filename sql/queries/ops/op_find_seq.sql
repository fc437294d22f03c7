-- The identity of the message with a seq.
-- Caller: ops/show.c. Index: inbox_messages_seq_key.
-- $1 seq.
SELECT m.seq, m.event_id, m.source, m.consumer FROM inbox.inbox_messages m WHERE m.seq = $1::bigint
