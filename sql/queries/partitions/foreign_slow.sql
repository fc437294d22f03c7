-- Unsettled rows of some partitions that another instance claimed from the table: one window of claim
-- numbers (rule R12).
-- Caller: store/claims/other_claims.c, window by window. Index: inbox_messages_claimed.
-- $1 other id, $2 from number, $3 width of the window, $4 topics, $5 partitions, $6 most rows, $7 rows
-- without a key, too. Back: which of the partitions (from 1), seq, offset, key hash.
SELECT p.n, m.seq, m.kafka_offset, substr(sha256(m.key), 1, 8)
FROM inbox.inbox_messages m
JOIN unnest($4::text[], $5::int[]) WITH ORDINALITY AS p(topic, kafka_partition, n)
  ON m.topic = p.topic AND m.kafka_partition = p.kafka_partition
WHERE m.claimed_by = $1::int AND m.delivery_count > 1
  AND m.claim_number >= $2::bigint AND m.claim_number < $2::bigint + $3::bigint
  AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
  AND ($7::boolean OR m.key IS NOT NULL)
LIMIT $6::int
