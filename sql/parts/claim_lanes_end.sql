-- Ends claim_lanes and claim_partitions: of the rows `waiting` in each lane, claims the uninterrupted run from the
-- lowest offset on, and returns it. The parameters are those of claim_lanes.
), free AS MATERIALIZED (
    SELECT seq FROM inbox.inbox_messages
    WHERE seq IN (SELECT seq FROM waiting) AND available_at IS NOT NULL
    FOR UPDATE SKIP LOCKED
), kind AS MATERIALIZED (
    -- Subscriptions are compared once for each type, not for each row.
    SELECT d.consumer, d.topic, d.event_type,
           coalesce((SELECT s.open
                     FROM unnest($8::text[], $9::text[], $10::text[], $11::smallint[], $12::boolean[])
                          WITH ORDINALITY AS s(consumer, topic, type, kind, open, rank)
                     -- include: claim_wanted
    FROM (SELECT DISTINCT consumer, topic, event_type FROM waiting) d
), checked AS MATERIALIZED (
    SELECT waiting.*,
           bool_and((waiting.available_at = 'infinity' OR waiting.available_at <= now())
                    AND waiting.seq IN (SELECT seq FROM free) AND waiting.seq <> ALL ($14::bigint[]) AND kind.wanted)
               OVER (PARTITION BY lane ORDER BY kafka_offset, seq) AS unbroken,
           row_number() OVER (PARTITION BY lane ORDER BY kafka_offset, seq) AS n,
           count(*) OVER (PARTITION BY lane) AS rows
    FROM waiting
    JOIN kind ON kind.consumer = waiting.consumer AND kind.topic = waiting.topic
             AND kind.event_type IS NOT DISTINCT FROM waiting.event_type
), run AS MATERIALIZED (
    SELECT checked.*, sum(size) OVER (ORDER BY lane, kafka_offset, seq) - size < $7::bigint AS fits
    FROM checked
    WHERE unbroken AND n <= $6::int
), verdict AS MATERIALIZED (
    SELECT seq, lane, count(*) OVER (PARTITION BY lane) < rows AS followed,
           (SELECT NOT bool_and(fits) FROM run) AS cut
    FROM run
    WHERE fits
)
UPDATE inbox.inbox_messages m
SET available_at = NULL, claimed_by = $1::int, claim_number = $13::bigint,
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
          substr(sha256(m.key), 1, 8), v.cut, v.lane
