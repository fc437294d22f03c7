-- Claims the due messages of the given streams: retries, overflow, replays (rules R7, R10, R13).
-- Two kinds of due rows are parked instead: those without a handler here, and, with $12, those behind another waiting
-- row of their key. Rows beyond the byte budget stay as they are; the answer then says so. A row whose
-- delivery_count has reached its maximum dies instead: the count never repeats, because it is part of a claim (rule
-- R7).
-- Caller: store/claims/claims.c. Index: inbox_messages_due; inbox_messages_by_key for the order within a key.
-- $1 own id, $2 topics, $3 partitions, $4 consumers, $5 most rows, $6 most bytes, $7..$11 subscriptions (consumer, topic,
-- type, kind 0 any 1 prefix 2 exact, open) with the most specific first, $12 for each stream whether it is ordered by key,
-- $13 the claim's number, $14 since when to look, for each stream (NULL = ever): before that the index has only rows that
-- are deleted. $15 rows to leave out, because PostgreSQL refuses them (store/claims/claims.c).
-- Holds the own lease (rule R4): a fenced instance claims nothing. Waits for no lock: a locked row is in use, and is due
-- again later.
-- The CTE is MATERIALIZED: the planner must not run LIMIT … FOR UPDATE twice.
-- include: claim_lease
), mine AS MATERIALIZED (
    -- Only its owner claims rows of an ordered partition; acquiring a partition locks its row (R10, R12).
    SELECT o.topic, o.kafka_partition, p.consumer, p.by_key, coalesce(p.since, '-infinity') AS since, p.number
    FROM lease
    CROSS JOIN unnest($2::text[], $3::int[], $4::text[], $12::boolean[], $14::timestamptz[])
        WITH ORDINALITY AS p(topic, kafka_partition, consumer, by_key, since, number)
    JOIN inbox.inbox_offsets o ON o.topic = p.topic AND o.kafka_partition = p.kafka_partition
    WHERE o.ordering = 'none' OR o.owner = $1::int
    FOR KEY SHARE OF o SKIP LOCKED
), due AS MATERIALIZED (
    SELECT m.*, p.by_key, p.number
    FROM mine p
    CROSS JOIN LATERAL (
        SELECT d.seq, d.topic, d.kafka_partition, d.consumer, d.kafka_offset, d.event_type, d.available_at,
               substr(sha256(d.key), 1, 8) AS key_hash,
               coalesce(octet_length(d.payload), 0) + coalesce(octet_length(d.key), 0)
                   + octet_length(d.headers::text) + 1024 AS size
        FROM inbox.inbox_messages d
        WHERE d.topic = p.topic AND d.kafka_partition = p.kafka_partition AND d.consumer = p.consumer
          AND d.available_at > '-infinity' AND d.available_at >= p.since AND d.available_at <= now()
          AND d.seq <> ALL ($15::bigint[])
        ORDER BY d.available_at, d.seq
        LIMIT $5::int
        FOR UPDATE SKIP LOCKED) m
    LIMIT $5::int
), kind AS MATERIALIZED (
    -- Subscriptions are compared once for each type, not for each row.
    SELECT d.consumer, d.topic, d.event_type,
           coalesce((SELECT s.open
                     FROM unnest($7::text[], $8::text[], $9::text[], $10::smallint[], $11::boolean[])
                          WITH ORDINALITY AS s(consumer, topic, type, kind, open, rank)
                     -- include: claim_wanted
    FROM (SELECT DISTINCT consumer, topic, event_type FROM due) d
), checked AS MATERIALIZED (
    SELECT w.*,
           -- As they are due: the next look may begin where the last row that fits was due.
           coalesce(sum(w.size) FILTER (WHERE w.wanted)
                    OVER (ORDER BY w.available_at, w.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
               < $6::bigint AS fits
    FROM (SELECT due.*, kind.wanted
          FROM due
          JOIN kind ON kind.consumer = due.consumer AND kind.topic = due.topic
                   AND kind.event_type IS NOT DISTINCT FROM due.event_type) w
), lane AS MATERIALIZED (
    -- The first row of the key that waits and is not taken now; NULL: nothing else of it waits.
    SELECT k.number, k.key_hash,
           (SELECT w.kafka_offset
            FROM (SELECT o.seq, o.kafka_offset
                  FROM inbox.inbox_messages o
                  WHERE o.topic = k.topic AND o.kafka_partition = k.kafka_partition AND o.consumer = k.consumer
                    AND substr(sha256(o.key), 1, 8) = k.key_hash AND o.available_at IS NOT NULL
                    AND o.seq > 0
                  ORDER BY o.kafka_offset
                  LIMIT k.rows + 1) w
            WHERE w.seq NOT IN (SELECT j.seq FROM checked j WHERE j.wanted AND j.fits)
            ORDER BY w.kafka_offset LIMIT 1) AS blocker
    FROM (SELECT number, topic, kafka_partition, consumer, key_hash, count(*) AS rows
          FROM checked WHERE key_hash IS NOT NULL AND by_key
          GROUP BY number, topic, kafka_partition, consumer, key_hash) k
), verdict AS MATERIALIZED (
    SELECT j.seq, j.key_hash, j.number, j.available_at, j.wanted AND (l.blocker IS NULL OR j.kafka_offset < l.blocker) AS claimed,
           l.blocker IS NOT NULL AS followed, (SELECT NOT bool_and(fits) FROM checked) AS cut
    FROM checked j
    LEFT JOIN lane l ON l.number = j.number AND l.key_hash = j.key_hash
    WHERE j.fits
)
UPDATE inbox.inbox_messages m
SET available_at = CASE WHEN v.claimed THEN NULL ELSE 'infinity'::timestamptz END,
    claimed_by = CASE WHEN v.claimed THEN $1::int END,
    claim_number = CASE WHEN v.claimed THEN $13::bigint ELSE m.claim_number END,
    delivery_count = CASE WHEN v.claimed THEN greatest(least(m.delivery_count, 2147483646) + 1, 2)
                          ELSE m.delivery_count END,
    dead_at = CASE WHEN v.claimed AND m.delivery_count = 2147483647 THEN now() END,
    error = CASE WHEN v.claimed AND m.delivery_count = 2147483647 THEN
        'claimed 2147483647 times: one claim more could not be told from an earlier one' ELSE m.error END,
    error_code = CASE WHEN v.claimed AND m.delivery_count = 2147483647 THEN 'DELIVERY_COUNT' ELSE m.error_code END
FROM verdict v
WHERE m.seq = v.seq
RETURNING m.seq, m.topic, m.kafka_partition, m.kafka_offset, v.claimed AND m.dead_at IS NULL, v.followed,
          m.source, m.event_id, m.event_type, m.kafka_timestamp, m.key,
          CASE WHEN v.claimed THEN m.headers END, CASE WHEN v.claimed THEN m.payload END,
          m.delivery_count, m.retry_count, m.crash_count, m.suspect, m.replay_count > 0,
          v.key_hash, v.cut, v.number, v.available_at
