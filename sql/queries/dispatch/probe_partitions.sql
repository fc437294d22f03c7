-- The rows that a claim of whole partitions would take first, to try them one by one.
-- Caller: store/claims/claims.c, after claims that failed. Index: inbox_messages_position.
-- $1 topics, $2 partitions, $3 most rows a partition, $4 those to leave out.
SELECT m.seq
FROM unnest($1::text[], $2::int[]) AS p(topic, kafka_partition)
CROSS JOIN LATERAL (
    SELECT w.seq FROM inbox.inbox_messages w
    WHERE w.topic = p.topic AND w.kafka_partition = p.kafka_partition
      AND w.available_at IS NOT NULL AND w.kafka_offset >= 0 AND w.seq <> ALL ($4::bigint[])
    ORDER BY w.kafka_offset
    LIMIT $3::int) m
