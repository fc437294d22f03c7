-- How many messages of known consumers wait in all partitions, up to a cap. As in ingest, those that wait for nobody do not count.
-- Caller: ops/backfill.c, every few pages. Index: inbox_messages_due, inbox_consumers_pkey (small table).
-- $1 cap.
SELECT count(*)
FROM (SELECT FROM inbox.waiting_streams() s
      CROSS JOIN LATERAL (
          SELECT FROM inbox.inbox_messages m
          WHERE m.topic = s.topic AND m.kafka_partition = s.kafka_partition AND m.consumer = s.consumer
            AND m.available_at > '-infinity'
          LIMIT $1::bigint) w
      WHERE EXISTS (SELECT FROM inbox.inbox_consumers c
                    WHERE c.name = s.consumer AND (c.listed_at > clock_timestamp() - c.memory OR c.name = ''))
      LIMIT $1::bigint) c
