-- The rows that a claim of keys would take first, to try them one by one.
-- Caller: store/claims/claims.c, after claims that failed. Index: inbox_messages_key.
-- $1 topics, $2 partitions, $3 key hashes, $4 most rows a key, $5 those to leave out.
SELECT m.seq
FROM unnest($1::text[], $2::int[], $3::bytea[]) AS p(topic, kafka_partition, key_hash)
CROSS JOIN LATERAL (
    SELECT w.seq FROM inbox.inbox_messages w
    WHERE w.topic = p.topic AND w.kafka_partition = p.kafka_partition
      AND substr(sha256(w.key), 1, 8) = p.key_hash AND w.available_at IS NOT NULL AND w.seq > 0
      AND w.seq <> ALL ($5::bigint[])
    ORDER BY w.kafka_offset
    LIMIT $4::int) m
