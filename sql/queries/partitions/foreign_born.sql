-- Unsettled rows of some streams that were born claimed by another instance: one window of seq (rule R12).
-- Caller: store/claims/other_claims.c, window by window. Index: inbox_messages_seq_key.
-- $1 other id, $2 from seq, $3 width of the window, $4 topics, $5 partitions, $6 consumers, $7 for each
-- stream whether its rows without a key are asked for, too (NULL = no row of it is), $8 most rows. Back: which of the
-- streams (from 1), seq, offset, key hash.
SELECT p.n, m.seq, m.kafka_offset, substr(sha256(m.key), 1, 8)
FROM inbox.inbox_messages m
JOIN unnest($4::text[], $5::int[], $6::text[], $7::boolean[])
    WITH ORDINALITY AS p(topic, kafka_partition, consumer, keyless, n)
  ON m.topic = p.topic AND m.kafka_partition = p.kafka_partition AND m.consumer = p.consumer
WHERE m.seq >= $2::bigint AND m.seq < $2::bigint + $3::bigint
  AND m.claimed_by = $1::int AND m.delivery_count = 1
  AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
  AND (p.keyless OR (NOT p.keyless AND m.key IS NOT NULL))
LIMIT $8::int
