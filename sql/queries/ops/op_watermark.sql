-- How far a partition was read, and the log that was read (see store/batches/watermarks.h); no row = never.
-- Caller: ingest/verify.c, ops/seek.c. Index: inbox_offsets_pkey.
-- $1 topic, $2 partition.
SELECT o.next_offset, o.generation, o.generation_from, CASE WHEN o.topic_ids_at = o.next_offset THEN o.topic_ids END
FROM inbox.inbox_offsets o WHERE o.topic = $1::text AND o.kafka_partition = $2::int
