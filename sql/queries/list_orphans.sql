-- Partitions that nobody owns for longer than a lease although messages of them wait: their topic is not
-- read by anybody any more (rule R6).
-- Caller: store/watermarks.c, every few seconds. Index: inbox_messages_claim (one row a partition).
-- $1 lease in ms.
SELECT o.topic, o.kafka_partition
FROM inbox.inbox_offsets o
WHERE o.owner IS NULL AND o.updated_at < now() - $1::bigint * interval '1 millisecond'
  AND (SELECT true FROM inbox.inbox_messages m
       WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition AND m.available_at IS NOT NULL
       LIMIT 1)
ORDER BY o.topic, o.kafka_partition
LIMIT 1000
