-- Keeps duplicates as a whole whose payload differs from the stored message of their id.
-- Caller: store/batches/batch_writer.c, for the rows that find_conflicts found. Index: inbox_messages_pkey,
-- inbox_conflicts_coordinates (conflict).
-- The arrays of insert_messages without event_type, placement and asks. Back: one row a conflict kept now.
INSERT INTO inbox.inbox_conflicts
    (source, event_id, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload, payload_digest)
SELECT i.source, i.event_id, i.topic, i.kafka_partition, i.kafka_offset, i.kafka_timestamp,
       i.key, i.headers, i.payload, i.payload_digest
FROM (
    SELECT unnest($1::text[]) AS source, unnest($2::text[]) AS event_id, unnest($3::text[]) AS topic,
           unnest($4::int[]) AS kafka_partition, unnest($5::bigint[]) AS kafka_offset,
           unnest($6::timestamptz[]) AS kafka_timestamp, unnest($7::bytea[]) AS key, unnest($8::jsonb[]) AS headers,
           unnest($9::bytea[]) AS payload, unnest($10::bytea[]) AS payload_digest, unnest($11::text[]) AS consumer) i
JOIN inbox.inbox_messages m ON m.consumer = i.consumer AND m.event_id = i.event_id AND m.source = i.source
WHERE m.payload_digest IS DISTINCT FROM i.payload_digest
ON CONFLICT (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz))) DO NOTHING
RETURNING topic, kafka_partition, kafka_offset, event_id
