-- Reads the watermarks after locking their rows: any earlier transaction on them has ended.
-- Caller: store/batches/watermarks.c, after a reconnect, and when a batch found another watermark. Index: inbox_offsets_pkey.
-- $1 topics, $2 partitions.
SELECT o.topic, o.kafka_partition, o.next_offset, o.epoch, o.last_offset, o.last_timestamp, o.forced, o.owner,
       o.last_digest, o.generation, o.generation_from,
       CASE WHEN o.topic_ids_at = o.next_offset THEN o.topic_ids END, o.at_begin
FROM inbox.inbox_offsets o
JOIN unnest($1::text[], $2::int[]) AS p(topic, kafka_partition)
  ON o.topic = p.topic AND o.kafka_partition = p.kafka_partition
ORDER BY o.topic, o.kafka_partition
FOR UPDATE OF o
