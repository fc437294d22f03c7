-- Acquires partitions that Kafka has assigned: sets owner, a new epoch and the ordering, and returns the watermark. The
-- lock is FOR UPDATE: everything that the previous owner has stored or claimed is committed and visible. A row that is
-- locked now is skipped, and the caller tries it again: a stopped process may hold the lock until its lease ends,
-- and the other partitions do not wait for that (rules R5, R12).
-- Caller: store/batches/watermarks.c, on assignment. Index: inbox_offsets_pkey.
-- $1 own id, $2 topics, $3 partitions, $4 ordering.
WITH free AS MATERIALIZED (
    SELECT o.topic, o.kafka_partition
    FROM inbox.inbox_offsets o
    JOIN unnest($2::text[], $3::int[]) AS p(topic, kafka_partition)
      ON o.topic = p.topic AND o.kafka_partition = p.kafka_partition
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
