-- The rows that a claim of due messages would take first, to try them one by one.
-- Caller: store/claims/claims.c, after claims that failed. Index: inbox_messages_due.
-- $1 topics, $2 partitions, $3 consumers, $4 most rows, $5 those to leave out.
SELECT m.seq
FROM unnest($1::text[], $2::int[], $3::text[]) AS p(topic, kafka_partition, consumer)
CROSS JOIN LATERAL (
    SELECT d.seq FROM inbox.inbox_messages d
    WHERE d.topic = p.topic AND d.kafka_partition = p.kafka_partition AND d.consumer = p.consumer
      AND d.available_at > '-infinity' AND d.available_at <= now() AND d.seq <> ALL ($5::bigint[])
    ORDER BY d.available_at, d.seq
    LIMIT $4::int) m
LIMIT $4::int
