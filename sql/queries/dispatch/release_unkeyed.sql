-- Releases parked rows without a key, which no order holds back, that a handler wants now (rule R15).
-- Caller: store/claims.c, after a subscription came and every few seconds. Index: inbox_messages_key.
-- $1 topic, $2 partition, $3 most rows, $4..$7 subscriptions.
WITH wanted AS MATERIALIZED (
    -- LATERAL lets the planner remember the answer for each type.
    SELECT m.seq FROM inbox.inbox_messages m
    CROSS JOIN LATERAL (
           SELECT s.open
           FROM unnest($4::text[], $5::text[], $6::smallint[], $7::boolean[])
                WITH ORDINALITY AS s(topic, type, kind, open, rank)
           WHERE (s.topic IS NULL OR s.topic = m.topic)
             AND CASE s.kind WHEN 0 THEN true
                             WHEN 1 THEN starts_with(m.event_type, s.type)
                             ELSE m.event_type = s.type END
           ORDER BY s.rank LIMIT 1) w
    WHERE m.topic = $1::text AND m.kafka_partition = $2::int
      AND substr(sha256(m.key), 1, 8) IS NULL AND m.available_at IS NOT NULL AND m.seq > 0
      AND m.available_at = 'infinity'
      AND w.open
    ORDER BY m.kafka_offset
    LIMIT $3::int
    FOR UPDATE OF m SKIP LOCKED
)
UPDATE inbox.inbox_messages m SET available_at = now()
FROM wanted WHERE m.seq = wanted.seq
