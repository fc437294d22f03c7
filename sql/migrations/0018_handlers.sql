-- Handlers are remembered: what is for one that restarts waits for it, and does not go to a less specific one.

CREATE TABLE inbox.inbox_handlers (
    name          text COLLATE "C" PRIMARY KEY,
    subscriptions jsonb NOT NULL CHECK (jsonb_typeof(subscriptions) = 'array'),
    memory        interval NOT NULL,
    known_since   timestamptz NOT NULL,
    connected_at  timestamptz NOT NULL,
    last_seen_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_handlers IS
    'The handlers that connected to any sidecar of this schema, as their newest hello described them. inbox.forget_handler() ends the memory of one.';
COMMENT ON COLUMN inbox.inbox_handlers.subscriptions IS 'As in the hello: [{"topic": "orders", "types": ["order.*"]}]';
COMMENT ON COLUMN inbox.inbox_handlers.memory IS
    'inbox.handler_memory, as a sidecar said it last: the messages of the handler wait for it so long after last_seen_at';
COMMENT ON COLUMN inbox.inbox_handlers.connected_at IS 'The newest hello';

-- One row a handler. Connected: a sidecar that is not known to be gone says so with its heartbeat. Away: its messages
-- wait for it until known_until. Lapsed: the memory is over, and only this row is left.
CREATE VIEW inbox.handlers AS
SELECT h.name,
       CASE WHEN c.instances IS NOT NULL THEN 'connected'
            WHEN h.last_seen_at > clock_timestamp() - h.memory THEN 'away'
            ELSE 'lapsed' END AS status,
       coalesce(c.instances, '{}') AS instances,
       h.known_since, h.connected_at, h.last_seen_at,
       CASE WHEN c.instances IS NULL THEN h.last_seen_at + h.memory END AS known_until,
       h.subscriptions
FROM inbox.inbox_handlers h
CROSS JOIN LATERAL (
    SELECT array_agg(i.name ORDER BY i.name) AS instances
    FROM inbox.inbox_instances i
    WHERE i.fenced_at IS NULL AND i.stopped_at IS NULL AND i.handlers ? h.name) c;

-- The known handler a message is for: the one with the most specific subscription, of equal ones that of the handler
-- that said hello last. NULL: none.
CREATE FUNCTION inbox.handler_of(topic text, event_type text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.name
    FROM inbox.handlers h
    CROSS JOIN LATERAL jsonb_array_elements(h.subscriptions) AS s(sub)
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE WHEN jsonb_typeof(s.sub -> 'types') = 'array' AND s.sub -> 'types' <> '[]' THEN s.sub -> 'types'
             ELSE '["*"]' END) AS t(type)
    WHERE h.status <> 'lapsed' AND coalesce(s.sub ->> 'topic' = handler_of.topic, true)
      AND CASE WHEN t.type = '*' THEN true
               WHEN right(t.type, 1) = '*' THEN starts_with(handler_of.event_type, left(t.type, -1))
               ELSE handler_of.event_type = t.type END
    ORDER BY right(t.type, 1) = '*', length(t.type) DESC, s.sub ->> 'topic' IS NULL, h.status <> 'connected',
             h.connected_at DESC, h.name
    LIMIT 1
$$;

-- Ends the memory of a handler at once: what waits for it goes to the next specific handler, or waits for any. A handler
-- that is connected is known again with the next heartbeat. False: there is none of that name.
CREATE FUNCTION inbox.forget_handler(name text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(name, '') = '' THEN
        PERFORM inbox.refuse('forget_handler', 'name must be given');
    END IF;
    DELETE FROM inbox.inbox_handlers h WHERE h.name = forget_handler.name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM inbox.audit('forget_handler', jsonb_build_object('handler', name), reason, 1);
    PERFORM pg_notify('inboxd_replay', '');
    RETURN true;
END $$;

-- As in 0007, with what 0015 set, and who is known.
CREATE OR REPLACE FUNCTION inbox.status() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    WITH tried_again AS MATERIALIZED (
        SELECT r.topic, r.kafka_partition, coalesce(substr(sha256(r.key), 1, 8), '') AS hash
        FROM inbox.inbox_instances i
        CROSS JOIN LATERAL (
            SELECT m.topic, m.kafka_partition, m.key FROM inbox.inbox_messages m
            WHERE m.claimed_by = i.id AND m.claim_number >= i.low_claim AND m.delivery_count > 1
              AND m.available_at IS NULL AND m.processed_at IS NULL AND m.dead_at IS NULL
            LIMIT 10000) r
        WHERE i.rescued_at IS NULL AND i.stopped_at IS NULL
    ), state AS MATERIALIZED (
        SELECT o.*, w.waiting, least(w.oldest, u.oldest) AS oldest, k.parked
        FROM inbox.inbox_offsets o
        CROSS JOIN LATERAL (
            SELECT count(*) AS waiting, min(d.available_at) AS oldest
            FROM (SELECT m.available_at FROM inbox.inbox_messages m
                  WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition
                    AND m.available_at > '-infinity' AND m.available_at < 'infinity'
                  ORDER BY m.available_at, m.seq LIMIT 10000) d) w
        CROSS JOIN LATERAL (
            SELECT count(*) AS parked
            FROM (SELECT FROM inbox.inbox_messages m
                  WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition
                    AND m.available_at = 'infinity'
                  LIMIT 10000) d) k
        LEFT JOIN LATERAL (
            SELECT d.received_at AS oldest
            FROM (SELECT m.seq, m.received_at, m.kafka_offset, substr(sha256(m.key), 1, 8) AS hash
                  FROM inbox.inbox_messages m
                  WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition
                    AND m.available_at = 'infinity'
                  ORDER BY m.available_at, m.seq LIMIT 10000) d
            WHERE CASE o.ordering
                WHEN 'key' THEN
                    (o.topic, o.kafka_partition, coalesce(d.hash, '-')) NOT IN (
                        SELECT t.topic, t.kafka_partition, t.hash FROM tried_again t)
                    AND NOT EXISTS (
                        SELECT FROM inbox.inbox_messages b
                        WHERE b.topic = o.topic AND b.kafka_partition = o.kafka_partition
                          AND b.available_at IS NOT NULL AND b.seq > 0 AND substr(sha256(b.key), 1, 8) = d.hash
                          AND b.kafka_offset < d.kafka_offset)
                WHEN 'partition' THEN
                    (o.topic, o.kafka_partition) NOT IN (SELECT t.topic, t.kafka_partition FROM tried_again t)
                    AND NOT EXISTS (
                        SELECT FROM inbox.inbox_messages b
                        WHERE b.topic = o.topic AND b.kafka_partition = o.kafka_partition
                          AND b.available_at IS NOT NULL AND b.kafka_offset >= 0 AND b.kafka_offset < d.kafka_offset)
                ELSE true END
            ORDER BY d.seq LIMIT 1) u ON true
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
        'dead', (SELECT count(*) FROM (SELECT 1 FROM inbox.inbox_messages d
                                       WHERE d.dead_at IS NOT NULL LIMIT 10000) d),
        'rejects', (SELECT count(*) FROM (SELECT 1 FROM inbox.inbox_rejects LIMIT 10000) r),
        'conflicts', (SELECT count(*) FROM (SELECT 1 FROM inbox.inbox_conflicts LIMIT 10000) c),
        'instances', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                          'id', i.id, 'name', i.name, 'started_at', i.started_at,
                          'heartbeat_at', i.heartbeat_at, 'handlers', i.handlers) ORDER BY i.name, i.id), '[]')
                      FROM inbox.inbox_instances i WHERE i.fenced_at IS NULL AND i.stopped_at IS NULL),
        'handlers', (SELECT coalesce(jsonb_agg(to_jsonb(k) - 'subscriptions' ORDER BY k.name), '[]')
                     FROM inbox.handlers k WHERE k.status <> 'lapsed'),
        'partitions', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'topic', p.topic, 'kafka_partition', p.kafka_partition,
                           'next_offset', p.next_offset, 'owner', p.owner, 'forced', p.forced,
                           'ordering', p.ordering, 'waiting', p.waiting, 'parked', p.parked,
                           'updated_at', p.updated_at) ORDER BY p.topic, p.kafka_partition), '[]')
                       FROM state p))
$$;

REVOKE ALL ON FUNCTION inbox.handler_of(text, text), inbox.forget_handler(text, text) FROM PUBLIC;

-- Whoever may register a sidecar, read its row, or seek, may do here what that takes: nothing stops between this
-- migration and `inboxd migrate --roles`.
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee, a.privilege_type
        FROM pg_class c
        CROSS JOIN LATERAL aclexplode(c.relacl) a
        WHERE c.oid = 'inbox.inbox_instances'::regclass AND a.grantee <> c.relowner
          AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE')
    LOOP
        EXECUTE format('GRANT %s ON inbox.inbox_handlers TO %s', given.privilege_type, given.grantee);
        IF given.privilege_type = 'INSERT' THEN
            EXECUTE format('GRANT DELETE ON inbox.inbox_handlers TO %s', given.grantee);
        ELSIF given.privilege_type = 'SELECT' THEN
            EXECUTE format('GRANT SELECT ON inbox.handlers TO %s', given.grantee);
            EXECUTE format('GRANT EXECUTE ON FUNCTION inbox.handler_of(text, text) TO %s', given.grantee);
        END IF;
    END LOOP;
    FOR given IN
        SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
        FROM pg_proc p
        CROSS JOIN LATERAL aclexplode(p.proacl) a
        WHERE p.oid = 'inbox.seek(text, int, bigint, text)'::regprocedure AND a.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION inbox.forget_handler(text, text) TO %s', given.grantee);
    END LOOP;
END $$;
