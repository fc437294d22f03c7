-- A conflict: its event id, its source, its record, the bytes of its payload (NULL = a tombstone), and the states of the messages
-- with this id. No row: there is none.
-- Caller: ops/replay_rejects.c. Index: inbox_conflicts_pkey, inbox_messages_pkey.
-- $1 seq, $2 consumer (NULL = any).
SELECT c.event_id, c.source, concat(c.topic, '/', c.kafka_partition, '/', c.kafka_offset), octet_length(c.payload),
       (SELECT string_agg(DISTINCT m.status, ', ') FROM inbox.messages m
        WHERE m.event_id = c.event_id AND m.source = c.source AND ($2::text IS NULL OR m.consumer = $2::text))
FROM inbox.inbox_conflicts c
WHERE c.seq = $1::bigint
