-- Whether any message of these streams waits in the table: due, retried or parked.
-- Caller: store/claims/waiting_rows.c, to find streams clean. Index: inbox_messages_due.
-- $1 topics, $2 partitions, $3 consumers. Back: one boolean a stream, in their order.
-- Not EXISTS: the planner could transform that into one scan of all waiting rows of the table.
SELECT (SELECT true FROM inbox.inbox_messages m
        WHERE m.topic = p.topic AND m.kafka_partition = p.kafka_partition AND m.consumer = p.consumer
          AND m.available_at > '-infinity'
        LIMIT 1) IS NOT NULL
FROM unnest($1::text[], $2::int[], $3::text[]) WITH ORDINALITY AS p(topic, kafka_partition, consumer, n)
ORDER BY p.n
