-- Whether any message of these streams waits in the table: due, retried or parked.
-- Caller: store/claims/waiting_rows.c, to find streams clean. Index: inbox_messages_due.
-- Named: with any statistics its plan is this index.
-- $1 topics, $2 partitions, $3 consumers. Back: one boolean a stream, in their order.
-- During a backfill the answer is true: its next page must find the stream not clean (functions/backfill.sql).
-- Not EXISTS for the messages: the planner could transform that into one scan of all waiting rows of the table.
SELECT (SELECT true FROM inbox.inbox_messages m
        WHERE m.topic = p.topic AND m.kafka_partition = p.kafka_partition AND m.consumer = p.consumer
          AND m.available_at > '-infinity'
        LIMIT 1) IS NOT NULL
       OR EXISTS (SELECT FROM inbox.inbox_consumers c WHERE c.name = p.consumer AND c.backfill_until > clock_timestamp())
FROM unnest($1::text[], $2::int[], $3::text[]) WITH ORDINALITY AS p(topic, kafka_partition, consumer, n)
ORDER BY p.n
