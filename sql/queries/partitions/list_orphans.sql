-- Partitions that no instance is assigned and that have waiting messages (rule R6): the owner has not been a live
-- instance for that time, or it is this instance, which released them while the database was down. In random order, so
-- that partitions without a matching handler do not hide the others.
-- Caller: store/batches/watermarks.c, every few seconds. Index: inbox_messages_due (one row a partition).
-- $1 own id, $2 for how long in ms. Back: the partitions, and whether the owner is this instance.
SELECT o.topic, o.kafka_partition, coalesce(o.owner = $1::int, false)
FROM inbox.inbox_offsets o
WHERE o.updated_at < now() - $2::bigint * interval '1 millisecond'
  AND (o.owner = $1::int
       OR NOT EXISTS (SELECT FROM inbox.inbox_instances i WHERE i.id = o.owner AND i.fenced_at IS NULL))
  AND (SELECT true FROM inbox.inbox_messages m
       WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition AND m.available_at > '-infinity'
       LIMIT 1)
ORDER BY random()
LIMIT 1000
