-- Partitions that no instance is assigned and that have waiting messages (rule R6). In random order, so
-- that partitions without a matching handler do not hide the others.
-- Caller: store/batches/watermarks.c, when look_at_table has found one. Index: inbox_messages_due (one row a partition).
-- $1 own id, $2 for how long in ms. Back: the partitions, and whether the owner is this instance.
SELECT o.topic, o.kafka_partition, coalesce(o.owner = $1::int, false)
FROM inbox.inbox_offsets o
WHERE
-- include: orphaned
ORDER BY random()
LIMIT 1000
