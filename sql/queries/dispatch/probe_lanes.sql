-- The rows that a claim of keys would take first, to try them one by one.
-- Caller: store/claims/claims.c, after claims that failed. Index: inbox_messages_by_key.
-- $1 topics, $2 partitions, $3 consumers, $4 key hashes, $5 most rows a key, $6 those to leave out.
SELECT m.seq
FROM unnest($1::text[], $2::int[], $3::text[], $4::bytea[]) AS p(topic, kafka_partition, consumer, key_hash)
CROSS JOIN LATERAL (
    SELECT w.seq FROM inbox.inbox_messages w
    WHERE w.topic = p.topic AND w.kafka_partition = p.kafka_partition AND w.consumer = p.consumer
      AND substr(sha256(w.key), 1, 8) = p.key_hash AND w.available_at IS NOT NULL AND w.seq > 0
      AND w.seq <> ALL ($6::bigint[])
    ORDER BY w.kafka_offset
    LIMIT $5::int) m
