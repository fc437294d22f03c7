-- Creates the watermark rows of new partitions. Acquiring them sets epoch 1.
-- Caller: store/batches/watermarks.c, before taking them. Index: inbox_offsets_pkey.
-- $1 topics, $2 partitions, $3 ordering.
INSERT INTO inbox.inbox_offsets (topic, kafka_partition, epoch, ordering)
SELECT p.topic, p.kafka_partition, 0, $3::text
FROM unnest($1::text[], $2::int[]) AS p(topic, kafka_partition)
ORDER BY p.topic, p.kafka_partition
ON CONFLICT (topic, kafka_partition) DO NOTHING
