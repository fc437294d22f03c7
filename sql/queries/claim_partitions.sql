-- Claims the first waiting rows of whole partitions, parked ones too, where the partition is the order:
-- as claim_lanes, but the lane is the partition. Only an unbroken run from the lowest waiting
-- offset is taken: it ends at a row that waits for its retry, is wanted by nobody, or is locked.
-- Caller: store/claims.c. Index: inbox_messages_position.
-- $1 own id, $2 topics, $3 partitions, $4 ignored, $5 most rows a partition, $6 most bytes,
-- $7..$10 subscriptions $11 the claim's number and $12 rows to leave, as in claim_due. Holds the own lease as claim_due does.
-- As there, the answer says whether the byte budget left rows behind, and a delivery_count at its end is the row's end.
WITH lease AS MATERIALIZED (
    SELECT id FROM inbox.inbox_instances
    -- include: lease
    FOR KEY SHARE SKIP LOCKED
), mine AS MATERIALIZED (
    -- Rows of an ordered partition are claimed by its owner only; taking one locks its row (R10, R12).
    SELECT p.lane, o.topic, o.kafka_partition, p.key_hash
    FROM lease
    CROSS JOIN unnest($2::text[], $3::int[], $4::bytea[])
        WITH ORDINALITY AS p(topic, kafka_partition, key_hash, lane)
    JOIN inbox.inbox_offsets o ON o.topic = p.topic AND o.kafka_partition = p.kafka_partition
    WHERE o.ordering = 'none' OR o.owner = $1::int
    FOR KEY SHARE OF o SKIP LOCKED
), waiting AS MATERIALIZED (
    SELECT l.lane, m.*
    FROM mine l
    CROSS JOIN LATERAL (
        SELECT w.seq, w.topic, w.kafka_offset, w.event_type, w.available_at,
               coalesce(octet_length(w.payload), 0) + 1024 AS size
        FROM inbox.inbox_messages w
        WHERE w.topic = l.topic AND w.kafka_partition = l.kafka_partition
          AND w.available_at IS NOT NULL AND w.kafka_offset >= 0
        ORDER BY w.kafka_offset
        LIMIT $5::int + 1) m
), free AS MATERIALIZED (
    SELECT seq FROM inbox.inbox_messages
    WHERE seq IN (SELECT seq FROM waiting) AND available_at IS NOT NULL
    FOR UPDATE SKIP LOCKED
), kind AS MATERIALIZED (
    -- Subscriptions are compared once for each type, not for each row.
    SELECT d.topic, d.event_type,
           coalesce((SELECT s.open
                     FROM unnest($7::text[], $8::text[], $9::smallint[], $10::boolean[])
                          WITH ORDINALITY AS s(topic, type, kind, open, rank)
                     WHERE (s.topic IS NULL OR s.topic = d.topic)
                       AND CASE s.kind WHEN 0 THEN true
                                       WHEN 1 THEN starts_with(d.event_type, s.type)
                                       ELSE d.event_type = s.type END
                     ORDER BY s.rank LIMIT 1), false) AS wanted
    FROM (SELECT DISTINCT topic, event_type FROM waiting) d
), judged AS MATERIALIZED (
    SELECT waiting.*,
           bool_and((waiting.available_at = 'infinity' OR waiting.available_at <= now())
                    AND waiting.seq IN (SELECT seq FROM free) AND waiting.seq <> ALL ($12::bigint[]) AND kind.wanted)
               OVER (PARTITION BY lane ORDER BY kafka_offset, seq) AS unbroken,
           row_number() OVER (PARTITION BY lane ORDER BY kafka_offset, seq) AS n,
           count(*) OVER (PARTITION BY lane) AS rows
    FROM waiting
    JOIN kind ON kind.topic = waiting.topic AND kind.event_type IS NOT DISTINCT FROM waiting.event_type
), run AS MATERIALIZED (
    SELECT judged.*, sum(size) OVER (ORDER BY lane, kafka_offset, seq) - size < $6::bigint AS fits
    FROM judged
    WHERE unbroken AND n <= $5::int
), verdict AS MATERIALIZED (
    SELECT seq, count(*) OVER (PARTITION BY lane) < rows AS followed,
           (SELECT NOT bool_and(fits) FROM run) AS cut
    FROM run
    WHERE fits
)
UPDATE inbox.inbox_messages m
SET available_at = NULL, claimed_by = $1::int, claim_number = $11::bigint,
    delivery_count = greatest(least(m.delivery_count, 2147483646) + 1, 2),
    dead_at = CASE WHEN m.delivery_count = 2147483647 THEN now() END,
    error = CASE WHEN m.delivery_count < 2147483647 THEN m.error ELSE
        'claimed 2147483647 times: one claim more could not be told from an earlier one' END,
    error_code = CASE WHEN m.delivery_count < 2147483647 THEN m.error_code ELSE 'DELIVERY_COUNT' END
FROM verdict v
WHERE m.seq = v.seq
RETURNING m.seq, m.topic, m.kafka_partition, m.kafka_offset, m.dead_at IS NULL, v.followed,
          m.source, m.event_id, m.event_type, m.kafka_timestamp, m.key, m.headers, m.payload,
          m.delivery_count, m.retry_count, m.crash_count, m.suspect, m.replay_count > 0,
          substr(sha256(m.key), 1, 8), v.cut
