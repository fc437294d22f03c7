-- How far a partition was read; no row = never.
-- Caller: ingest/verify.c, ops/seek.c. Index: inbox_offsets_pkey.
-- $1 topic, $2 partition.
SELECT o.next_offset FROM inbox.inbox_offsets o WHERE o.topic = $1::text AND o.kafka_partition = $2::int
