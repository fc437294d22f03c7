-- Keeps those duplicates whole whose payload differs from what is stored under their id.
-- Caller: store/inbox.c, for the rows that insert_messages found known. Index: inbox_messages_pkey.
-- The arrays of insert_messages without event_type, place and asks. Back: one row a conflict kept now.
INSERT INTO inbox.inbox_conflicts
    (source, event_id, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload, payload_digest)
SELECT i.source, i.event_id, i.topic, i.kafka_partition, i.kafka_offset, i.kafka_timestamp,
       i.key, i.headers, i.payload, i.payload_digest
FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::bigint[], $6::timestamptz[],
            $7::bytea[], $8::jsonb[], $9::bytea[], $10::bytea[])
     AS i(source, event_id, topic, kafka_partition, kafka_offset, kafka_timestamp,
          key, headers, payload, payload_digest)
JOIN inbox.inbox_messages m ON m.event_id = i.event_id AND m.source = i.source
WHERE m.payload_digest IS DISTINCT FROM i.payload_digest
ON CONFLICT DO NOTHING
RETURNING topic, kafka_partition, kafka_offset, event_id
