-- The state of the inbox as one jsonb object.

-- The streams that have waiting rows: each consumer of a partition. Reads one row of each, along inbox_messages_due.
CREATE OR REPLACE FUNCTION inbox.waiting_streams(OUT topic text, OUT kafka_partition int, OUT consumer text)
RETURNS SETOF record
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    WITH RECURSIVE stream AS (
        SELECT o.topic, o.kafka_partition,
               (SELECT m.consumer FROM inbox.inbox_messages m
                WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition AND m.available_at > '-infinity'
                ORDER BY m.consumer LIMIT 1) AS consumer
        FROM inbox.inbox_offsets o
        UNION ALL
        SELECT s.topic, s.kafka_partition,
               (SELECT m.consumer FROM inbox.inbox_messages m
                WHERE m.topic = s.topic AND m.kafka_partition = s.kafka_partition AND m.available_at > '-infinity'
                  AND m.consumer > s.consumer
                ORDER BY m.consumer LIMIT 1)
        FROM stream s WHERE s.consumer IS NOT NULL
    )
    SELECT s.topic, s.kafka_partition, s.consumer FROM stream s WHERE s.consumer IS NOT NULL
$$;

-- The state of the inbox as one jsonb object. Counts stop at 10,000, so that the cost does not grow with
-- the table; 10000 means "or more".
-- oldest_waiting_seconds is what the metric inboxd_oldest_waiting_seconds measures: how long the oldest message has
-- been due, or parked although no earlier message blocks it. The schema does not know whether a message has a handler,
-- because subscriptions belong to a sidecar. But it can find messages behind another one: of the first 10,000 parked
-- rows of a stream it takes the first one that has no earlier row, neither waiting nor claimed from the table.
--
-- claimed: the count also ends after many rows that are done; claimed_is_exact is false then. backfills: those of the last
-- ten minutes.
CREATE OR REPLACE FUNCTION inbox.status() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    WITH tried_again AS MATERIALIZED (
        SELECT r.topic, r.kafka_partition, r.consumer, coalesce(substr(sha256(r.key), 1, 8), '') AS hash
        FROM inbox.inbox_instances i
        CROSS JOIN LATERAL (
            SELECT m.topic, m.kafka_partition, m.consumer, m.key FROM inbox.inbox_messages m
            WHERE m.claimed_by = i.id AND m.claim_number >= i.low_claim AND m.delivery_count > 1
              AND m.available_at IS NULL AND m.processed_at IS NULL AND m.dead_at IS NULL
            LIMIT 10000) r
        WHERE i.rescued_at IS NULL AND i.stopped_at IS NULL
    ), stream AS MATERIALIZED (
        SELECT s.topic, s.kafka_partition, w.waiting, k.parked,
               CASE WHEN NOT EXISTS (SELECT FROM inbox.inbox_pauses x
                                     WHERE x.kind = 'topic' AND x.name = s.topic OR x.kind = 'consumer' AND x.name = s.consumer)
                    THEN least(w.oldest, u.oldest) END AS oldest
        FROM inbox.waiting_streams() s
        JOIN inbox.inbox_offsets o ON o.topic = s.topic AND o.kafka_partition = s.kafka_partition
        LEFT JOIN inbox.inbox_consumers c ON c.name = s.consumer
        CROSS JOIN LATERAL (
            SELECT count(*) AS waiting, min(d.available_at) AS oldest
            FROM (SELECT m.available_at FROM inbox.inbox_messages m
                  WHERE m.topic = s.topic AND m.kafka_partition = s.kafka_partition AND m.consumer = s.consumer
                    AND m.available_at > '-infinity' AND m.available_at < 'infinity'
                  ORDER BY m.available_at, m.seq LIMIT 10000) d) w
        CROSS JOIN LATERAL (
            SELECT count(*) AS parked
            FROM (SELECT FROM inbox.inbox_messages m
                  WHERE m.topic = s.topic AND m.kafka_partition = s.kafka_partition AND m.consumer = s.consumer
                    AND m.available_at = 'infinity'
                  LIMIT 10000) d) k
        LEFT JOIN LATERAL (
            SELECT d.received_at AS oldest
            FROM (SELECT m.seq, m.received_at, m.kafka_offset, substr(sha256(m.key), 1, 8) AS hash
                  FROM inbox.inbox_messages m
                  WHERE m.topic = s.topic AND m.kafka_partition = s.kafka_partition AND m.consumer = s.consumer
                    AND m.available_at = 'infinity'
                  ORDER BY m.available_at, m.seq LIMIT 10000) d
            WHERE CASE coalesce(c.ordering, o.ordering)
                WHEN 'key' THEN
                    (s.topic, s.kafka_partition, s.consumer, coalesce(d.hash, '-')) NOT IN (
                        SELECT t.topic, t.kafka_partition, t.consumer, t.hash FROM tried_again t)
                    AND NOT EXISTS (
                        SELECT FROM inbox.inbox_messages b
                        WHERE b.topic = s.topic AND b.kafka_partition = s.kafka_partition AND b.consumer = s.consumer
                          AND b.available_at IS NOT NULL AND b.seq > 0 AND substr(sha256(b.key), 1, 8) = d.hash
                          AND b.kafka_offset < d.kafka_offset)
                WHEN 'partition' THEN
                    (s.topic, s.kafka_partition, s.consumer) NOT IN (
                        SELECT t.topic, t.kafka_partition, t.consumer FROM tried_again t)
                    AND NOT EXISTS (
                        SELECT FROM inbox.inbox_messages b
                        WHERE b.topic = s.topic AND b.kafka_partition = s.kafka_partition AND b.consumer = s.consumer
                          AND b.available_at IS NOT NULL AND b.kafka_offset >= 0 AND b.kafka_offset < d.kafka_offset)
                ELSE true END
            ORDER BY d.seq LIMIT 1) u ON true
    ), state AS MATERIALIZED (
        SELECT o.*, least(coalesce(w.waiting, 0), 10000) AS waiting, w.oldest, least(coalesce(w.parked, 0), 10000) AS parked
        FROM inbox.inbox_offsets o
        LEFT JOIN (SELECT s.topic, s.kafka_partition, sum(s.waiting)::bigint AS waiting, min(s.oldest) AS oldest,
                          sum(s.parked)::bigint AS parked
                   FROM stream s GROUP BY s.topic, s.kafka_partition) w
               ON w.topic = o.topic AND w.kafka_partition = o.kafka_partition
    )
    SELECT jsonb_build_object(
        'schema_version', (SELECT max(v.version) FROM inbox.inbox_schema_version v),
        'cluster_id', (SELECT b.cluster_id FROM inbox.inbox_binding b),
        'group_id', (SELECT b.group_id FROM inbox.inbox_binding b),
        'messages_estimate', (SELECT nullif(c.reltuples, -1)::bigint FROM pg_class c
                              WHERE c.oid = 'inbox.inbox_messages'::regclass),
        'waiting', (SELECT least(coalesce(sum(p.waiting), 0), 10000) FROM state p),
        'parked', (SELECT least(coalesce(sum(p.parked), 0), 10000) FROM state p),
        'oldest_waiting_seconds', (SELECT CASE WHEN min(p.oldest) > now() THEN 0
                                        ELSE extract(epoch FROM now() - min(p.oldest))::bigint END FROM state p),
        'claimed', coalesce(cardinality(held.seqs), 0),
        'claimed_is_exact', held.last_seq IS NULL,
        'backfills', inbox.recent_backfills(),
        'dead', (SELECT count(*) FROM (SELECT 1 FROM inbox.inbox_messages d
                                       WHERE d.dead_at IS NOT NULL
                                         AND (d.error_code IS DISTINCT FROM 'DISCARDED' OR d.claimed_by IS NOT NULL) LIMIT 10000) d),
        'rejects', (SELECT count(*) FROM (SELECT 1 FROM inbox.inbox_rejects LIMIT 10000) r),
        'conflicts', (SELECT count(*) FROM (SELECT 1 FROM inbox.inbox_conflicts LIMIT 10000) c),
        'instances', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                          'id', i.id, 'name', i.name, 'started_at', i.started_at,
                          'heartbeat_at', i.heartbeat_at, 'handlers', i.handlers) ORDER BY i.name, i.id), '[]')
                      FROM inbox.inbox_instances i WHERE i.fenced_at IS NULL AND i.stopped_at IS NULL),
        'handlers', (SELECT coalesce(jsonb_agg(to_jsonb(k) - 'subscriptions' ORDER BY k.name), '[]')
                     FROM inbox.handlers k WHERE k.status <> 'lapsed'),
        -- Nothing while there is only the consumer without a name, and it is listed.
        'consumers', (SELECT CASE WHEN coalesce(bool_and(c.name = '' AND c.status = 'listed'), true) THEN '[]'
                                  ELSE jsonb_agg(jsonb_build_object(
                                      'name', c.name, 'status', c.status, 'waiting', c.waiting, 'ordering', c.ordering,
                                      'known_until', c.known_until, 'handlers', c.handlers,
                                      'moving', c.moving, 'attention', c.attention) ORDER BY c.name) END
                      FROM inbox.consumers c WHERE c.status <> 'lapsed' OR c.waiting > 0 OR c.handlers <> '{}'),
        'pauses', (SELECT coalesce(jsonb_agg(to_jsonb(p) ORDER BY p.kind, p.name), '[]') FROM inbox.inbox_pauses p),
        'partitions', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'topic', p.topic, 'kafka_partition', p.kafka_partition,
                           'next_offset', p.next_offset, 'owner', p.owner, 'forced', p.forced,
                           'ordering', p.ordering, 'waiting', p.waiting, 'parked', p.parked,
                           'updated_at', p.updated_at) ORDER BY p.topic, p.kafka_partition), '[]')
                       FROM state p))
    FROM inbox.look_page('{"status": "claimed"}', 0, 10000) held
$$;
