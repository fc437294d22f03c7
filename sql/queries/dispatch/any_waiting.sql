-- Whether any message of these partitions waits in the table: due, retried or parked.
-- Caller: store/claims/waiting_rows.c, to find partitions clean. Index: inbox_messages_claim.
-- $1 topics, $2 partitions. Back: one boolean a partition, in their order.
-- Not EXISTS: the planner could transform that into one scan of all waiting rows of the table.
SELECT (SELECT true FROM inbox.inbox_messages m
        WHERE m.topic = p.topic AND m.kafka_partition = p.kafka_partition
          AND m.available_at > '-infinity'
        LIMIT 1) IS NOT NULL
FROM unnest($1::text[], $2::int[]) WITH ORDINALITY AS p(topic, kafka_partition, n)
ORDER BY p.n
