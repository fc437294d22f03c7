-- Keeps records that cannot become messages, unchanged.
-- Caller: store/batches/batch_writer.c. Index: inbox_rejects_coordinates (conflict).
INSERT INTO inbox.inbox_rejects
    (topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload, reason, holds)
SELECT i.topic, i.kafka_partition, i.kafka_offset, i.kafka_timestamp, i.key, i.headers, i.payload, i.reason, i.holds = 1
FROM unnest($1::text[], $2::int[], $3::bigint[], $4::timestamptz[], $5::bytea[], $6::jsonb[], $7::bytea[], $8::text[], $9::smallint[])
    AS i(topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload, reason, holds)
ON CONFLICT (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz))) DO NOTHING
RETURNING topic, kafka_partition, kafka_offset, reason
