-- How many messages wait in all partitions, up to a cap.
-- Caller: ops/backfill.c, every few pages. Index: inbox_messages_due.
-- $1 cap.
SELECT count(*)
FROM (SELECT FROM inbox.waiting_streams() s
      CROSS JOIN LATERAL (
          SELECT FROM inbox.inbox_messages m
          WHERE m.topic = s.topic AND m.kafka_partition = s.kafka_partition AND m.consumer = s.consumer
            AND m.available_at > '-infinity'
          LIMIT $1::bigint) w
      LIMIT $1::bigint) c
