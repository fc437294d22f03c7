-- Reads the watermarks of the own partitions without a lock, to see whether one was moved.
-- Caller: store/batches/watermarks.c, every few seconds. Index: none (one row a partition).
-- $1 own id.
SELECT o.topic, o.kafka_partition, o.next_offset, o.epoch, o.last_offset, o.last_timestamp, o.forced, o.owner,
       o.last_digest, o.generation, o.generation_from,
       CASE WHEN o.topic_ids_at = o.next_offset THEN o.topic_ids END, o.at_begin
FROM inbox.inbox_offsets o
WHERE o.owner = $1::int
