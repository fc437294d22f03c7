-- Releases partitions that Kafka has revoked.
-- Caller: store/batches/watermarks.c. Index: inbox_offsets_pkey.
-- $1 own id, $2 topics, $3 partitions.
UPDATE inbox.inbox_offsets o SET owner = NULL, updated_at = now()
FROM unnest($2::text[], $3::int[]) AS p(topic, kafka_partition)
WHERE o.topic = p.topic AND o.kafka_partition = p.kafka_partition AND o.owner = $1::int
