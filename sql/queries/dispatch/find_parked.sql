-- Finds keys whose lowest waiting row is parked: no earlier row of the key waits, but the row was not released (rule
-- R13). Walks the key index from key to key, not from row to row.
-- Caller: store/claims/waiting_rows.c, every few seconds, page by page. Index: inbox_messages_by_key.
-- $1 topic, $2 partition, $3 consumer, $4 the last hash of the page before (empty = start), $5 keys to walk.
-- Back: hash, parked or not, and whether it is wanted by the subscriptions $6..$10.
WITH RECURSIVE head AS (
    (SELECT substr(sha256(m.key), 1, 8) AS hash, m.available_at, m.event_type, 1 AS n
     FROM inbox.inbox_messages m
     WHERE m.topic = $1::text AND m.kafka_partition = $2::int AND m.consumer = $3::text
       AND m.available_at IS NOT NULL AND m.seq > 0
       AND substr(sha256(m.key), 1, 8) > $4::bytea
     ORDER BY substr(sha256(m.key), 1, 8), m.kafka_offset
     LIMIT 1)
    UNION ALL
    SELECT next.* FROM head CROSS JOIN LATERAL (
        SELECT substr(sha256(m.key), 1, 8) AS hash, m.available_at, m.event_type, head.n + 1
        FROM inbox.inbox_messages m
        WHERE m.topic = $1::text AND m.kafka_partition = $2::int AND m.consumer = $3::text
          AND m.available_at IS NOT NULL AND m.seq > 0
          AND substr(sha256(m.key), 1, 8) > head.hash
        ORDER BY substr(sha256(m.key), 1, 8), m.kafka_offset
        LIMIT 1) next
    WHERE head.n < $5::int
), kind AS MATERIALIZED (
    -- Subscriptions are compared once for each type, not for each key.
    SELECT d.event_type,
           coalesce((SELECT s.open
                     FROM unnest($6::text[], $7::text[], $8::text[], $9::smallint[], $10::boolean[])
                          WITH ORDINALITY AS s(consumer, topic, type, kind, open, rank)
                     WHERE s.consumer = $3::text AND (s.topic IS NULL OR s.topic = $1::text)
                       AND CASE s.kind WHEN 0 THEN true
                                       WHEN 1 THEN starts_with(d.event_type, s.type)
                                       ELSE d.event_type = s.type END
                     ORDER BY s.rank LIMIT 1), false) AS wanted
    FROM (SELECT DISTINCT event_type FROM head) d
)
SELECT head.hash, head.available_at = 'infinity', kind.wanted
FROM head
JOIN kind ON kind.event_type IS NOT DISTINCT FROM head.event_type
ORDER BY head.n
