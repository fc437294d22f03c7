-- Unsettled rows of some streams among the stragglers of other instances, which lie below their low_rest (rules
-- R3, R12).
-- Caller: store/claims/other_claims.c, once for all instances, after list_others: newer stragglers with older bounds miss nothing.
-- Index: inbox_messages_seq_key.
-- $1 own id, $2 topics, $3 partitions, $4 consumers, $5 for each stream whether its rows without a key are asked for,
-- too (NULL = no row of it is),
-- $6 most rows. Back: which of the streams (from 1), seq, offset, key hash.
SELECT p.n, m.seq, m.kafka_offset, substr(sha256(m.key), 1, 8)
FROM inbox.inbox_instances i
CROSS JOIN LATERAL unnest(i.stragglers) AS s(seq)
JOIN inbox.inbox_messages m ON m.seq = s.seq
JOIN unnest($2::text[], $3::int[], $4::text[], $5::boolean[])
    WITH ORDINALITY AS p(topic, kafka_partition, consumer, keyless, n)
  ON m.topic = p.topic AND m.kafka_partition = p.kafka_partition AND m.consumer = p.consumer
WHERE i.id <> $1::int AND i.rescued_at IS NULL
  AND m.claimed_by = i.id AND m.delivery_count = 1
  AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
  AND (p.keyless OR (NOT p.keyless AND m.key IS NOT NULL))
LIMIT $6::int
