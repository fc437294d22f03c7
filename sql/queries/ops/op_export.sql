-- The row of a message as a handler gets it. The attempt is the next one, or the last one of a dead message. The offset and the
-- partition are those of the record. dropped: retention has dropped the payload.
-- Caller: ops/export.c. Index: inbox_messages_seq_key.
-- $1 seq.
SELECT m.event_id, m.source, m.event_type, m.consumer, m.topic, m.kafka_partition, m.kafka_offset,
       CASE WHEN m.kafka_timestamp IS NULL THEN -1 ELSE (extract(epoch FROM m.kafka_timestamp) * 1000)::bigint END,
       m.key, m.payload, m.headers::text,
       CASE WHEN m.dead_at IS NULL THEN m.retry_count + 1 ELSE greatest(m.retry_count, 1) END,
       m.payload IS NULL AND m.payload_digest IS NOT NULL AS dropped
FROM inbox.messages m
WHERE m.seq = $1::bigint
