-- Acquires unassigned partitions for dispatch only (rule R6). Like take_partitions, unless another instance was faster.
-- Caller: store/batches/watermarks.c. Index: inbox_offsets_pkey.
-- $1 own id, $2 topics, $3 partitions, $4 ordering.
WITH free AS MATERIALIZED (
    SELECT o.topic, o.kafka_partition
    FROM inbox.inbox_offsets o
    JOIN unnest($2::text[], $3::int[]) AS p(topic, kafka_partition)
      ON o.topic = p.topic AND o.kafka_partition = p.kafka_partition
    WHERE o.owner = $1::int
       OR NOT EXISTS (SELECT FROM inbox.inbox_instances i WHERE i.id = o.owner AND i.fenced_at IS NULL)
    ORDER BY o.topic, o.kafka_partition
    FOR UPDATE OF o SKIP LOCKED
)
UPDATE inbox.inbox_offsets o
SET owner = $1::int, epoch = o.epoch + 1, ordering = $4::text, updated_at = now()
FROM free
WHERE o.topic = free.topic AND o.kafka_partition = free.kafka_partition
RETURNING o.topic, o.kafka_partition, o.next_offset, o.epoch, o.last_offset, o.last_timestamp, o.forced,
          o.owner, o.last_digest, o.generation, o.generation_from,
          CASE WHEN o.topic_ids_at = o.next_offset THEN o.topic_ids END, o.at_begin
