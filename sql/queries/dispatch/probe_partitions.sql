-- The rows that a claim of whole streams would take first, to try them one by one.
-- Caller: store/claims/claims.c, after claims that failed. Index: inbox_messages_by_offset.
-- $1 topics, $2 partitions, $3 consumers, $4 most rows a stream, $5 those to leave out.
SELECT m.seq
FROM unnest($1::text[], $2::int[], $3::text[]) AS p(topic, kafka_partition, consumer)
CROSS JOIN LATERAL (
    SELECT w.seq FROM inbox.inbox_messages w
    WHERE w.topic = p.topic AND w.kafka_partition = p.kafka_partition AND w.consumer = p.consumer
      AND w.available_at IS NOT NULL AND w.kafka_offset >= 0 AND w.seq <> ALL ($5::bigint[])
    ORDER BY w.kafka_offset
    LIMIT $4::int) m
