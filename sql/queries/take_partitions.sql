-- Takes partitions that Kafka assigned: owner, a new epoch, the order in force; tells the watermark
-- and whether anything of it waits in the table.
-- Runs after lock_partitions in its transaction: what the owner before was storing is over, and seen.
-- Caller: store/watermarks.c, on assignment. Index: inbox_offsets_pkey; inbox_messages_claim.
-- $1 own id, $2 topics, $3 partitions, $4 ordering.
INSERT INTO inbox.inbox_offsets AS o (topic, kafka_partition, owner, ordering)
SELECT p.topic, p.kafka_partition, $1::int, $4::text
FROM unnest($2::text[], $3::int[]) AS p(topic, kafka_partition)
ORDER BY p.topic, p.kafka_partition
ON CONFLICT (topic, kafka_partition) DO UPDATE
SET owner = EXCLUDED.owner, epoch = o.epoch + 1, ordering = EXCLUDED.ordering, updated_at = now()
RETURNING topic, kafka_partition, next_offset, epoch, last_offset, last_timestamp, forced,
          (SELECT true FROM inbox.inbox_messages m
           WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition
             AND m.available_at IS NOT NULL
           LIMIT 1) IS NOT NULL
