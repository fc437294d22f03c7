-- The identity of a message of a record. No consumer: all rows of the message have the same record.
-- Caller: ops/show.c. Index: those of inbox.find_record(), inbox_messages_seq_key.
-- $1 topic, $2 partition, $3 offset.
SELECT m.seq, m.event_id, m.source, NULL::text
FROM inbox.inbox_messages m WHERE m.seq = (SELECT inbox.find_record($1::text, $2::int, $3::bigint))
