-- What operators stumbled over: a status that did not see what waits without a handler, calls without a filter that
-- changed everything, and dead messages without a code that could not be chosen.

-- As in 0002, but oldest_waiting_seconds is what inboxd_oldest_waiting_seconds measures: since when the oldest message
-- is due, or lies parked though nothing before it has to end first. That nobody is registered for it the schema
-- cannot know, for subscriptions are a sidecar's; but what waits behind another message is found: of 10,000 parked
-- rows of a partition the first one with none before it, neither waiting nor being tried again.
CREATE OR REPLACE FUNCTION inbox.status() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
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
                    AND m.available_at < 'infinity'
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
                          AND b.available_at IS NOT NULL AND substr(sha256(b.key), 1, 8) = d.hash
                          AND b.kafka_offset < d.kafka_offset)
                WHEN 'partition' THEN
                    (o.topic, o.kafka_partition) NOT IN (SELECT t.topic, t.kafka_partition FROM tried_again t)
                    AND NOT EXISTS (
                        SELECT FROM inbox.inbox_messages b
                        WHERE b.topic = o.topic AND b.kafka_partition = o.kafka_partition
                          AND b.available_at IS NOT NULL AND b.kafka_offset < d.kafka_offset)
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
        'partitions', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'topic', p.topic, 'kafka_partition', p.kafka_partition,
                           'next_offset', p.next_offset, 'owner', p.owner, 'forced', p.forced,
                           'ordering', p.ordering, 'waiting', p.waiting, 'parked', p.parked,
                           'updated_at', p.updated_at) ORDER BY p.topic, p.kafka_partition), '[]')
                       FROM state p))
$$;

-- As in 0005, but an empty filter has an error of its own, and an empty error_code is one: messages without a code.
CREATE OR REPLACE FUNCTION inbox.check_filter(caller text, filter jsonb, allowed text[]) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := jsonb_strip_nulls(filter);
    name text;
BEGIN
    SELECT k INTO name FROM jsonb_object_keys(given) k
    WHERE k NOT IN ('status', 'topic', 'event_type', 'key', 'received_from', 'received_to', 'error_like',
                    'error_code');
    IF name IS NOT NULL THEN
        PERFORM inbox.refuse(caller, format('there is no filter "%s"', name));
    END IF;
    IF given = '{}' THEN
        PERFORM inbox.refuse(caller, format('say which messages; status => %L alone means all of them', allowed[1]));
    END IF;
    IF NOT coalesce(given ->> 'status' = ANY (allowed), false) THEN
        PERFORM inbox.refuse(caller, format('status is %s; it may be %s',
            coalesce(quote_literal(given ->> 'status'), 'NULL'), array_to_string(allowed, ', ')));
    END IF;
    FOR name IN SELECT k FROM jsonb_object_keys(given) k LOOP
        IF given ->> name = '' AND name NOT IN ('key', 'error_code') THEN
            PERFORM inbox.refuse(caller, name || ' is empty; leave it out for any');
        END IF;
    END LOOP;
    IF (given ->> 'received_from')::timestamptz > (given ->> 'received_to')::timestamptz THEN
        PERFORM inbox.refuse(caller, 'received_from is later than received_to');
    END IF;
    RETURN given;
END $$;

-- As in 0005, but for the empty error_code.
CREATE OR REPLACE FUNCTION inbox.find_page(filter jsonb, after_seq bigint, max_rows int) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text := filter ->> 'event_type';
    condition text := CASE filter ->> 'status'
        WHEN 'waiting' THEN 'm.available_at IS NOT NULL'
        WHEN 'retrying' THEN 'm.available_at < ''infinity'' AND m.retry_count > 0'
        WHEN 'parked' THEN 'm.available_at = ''infinity'''
        WHEN 'processed' THEN 'm.processed_at IS NOT NULL'
        WHEN 'dead' THEN 'm.dead_at IS NOT NULL'
        WHEN 'claimed' THEN 'm.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL'
        ELSE 'true' END;
BEGIN
    SELECT concat_ws(' AND ', condition,
        CASE WHEN filter ? 'topic' THEN format('m.topic = %L', filter ->> 'topic') END,
        CASE WHEN right(kind, 1) = '*' THEN format('starts_with(m.event_type, %L)', left(kind, -1))
             WHEN kind IS NOT NULL THEN format('m.event_type = %L', kind) END,
        CASE WHEN filter ? 'key' THEN format('m.key = convert_to(%L, ''UTF8'')', filter ->> 'key') END,
        CASE WHEN filter ? 'received_from'
             THEN format('m.received_at >= %L::timestamptz', filter ->> 'received_from') END,
        CASE WHEN filter ? 'received_to'
             THEN format('m.received_at < %L::timestamptz', filter ->> 'received_to') END,
        CASE WHEN filter ? 'error_like' THEN format('m.error LIKE %L', filter ->> 'error_like') END,
        CASE WHEN filter ->> 'error_code' = '' THEN 'coalesce(m.error_code, '''') = '''''
             WHEN filter ? 'error_code' THEN format('m.error_code = %L', filter ->> 'error_code') END)
    INTO condition;
    RETURN QUERY EXECUTE 'SELECT m.seq FROM inbox.inbox_messages m WHERE m.seq > $1 AND ' || condition
        || ' ORDER BY m.seq LIMIT $2' USING coalesce(after_seq, 0), max_rows;
END $$;

-- As in 0005, but a status that is not given is the usual one only when something else is given: without any argument
-- they would change everything, which is more often a slip than meant. The signatures are the same: owner and grants
-- stay.
CREATE OR REPLACE FUNCTION inbox.replay_where(
    status text DEFAULT NULL, topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_where', jsonb_build_object('status', coalesce(status,
        CASE WHEN dry_run IS NOT false OR num_nonnulls(topic, event_type, received_from, received_to, error_like,
                                                       max_rows, reason, key, error_code) > 0 THEN 'dead' END), 'topic', topic,
        'event_type', event_type, 'key', key, 'received_from', received_from, 'received_to', received_to,
        'error_like', error_like, 'error_code', error_code), ARRAY['dead', 'processed']);
    seqs bigint[] := ARRAY(SELECT inbox.find_page(given, 0, inbox.check_max_rows('replay_where', max_rows)));
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('replay_where', 'dry_run is NULL; it must be true or false');
    ELSIF dry_run THEN
        RETURN (SELECT count(*) FROM inbox.inbox_messages m
                WHERE m.seq = ANY (seqs) AND (m.payload IS NOT NULL OR m.payload_digest IS NULL));
    END IF;
    affected := inbox.replay_seqs(seqs, given ->> 'status', reason);
    PERFORM inbox.audit('replay', given, reason, affected);
    RETURN affected;
END $$;

CREATE OR REPLACE FUNCTION inbox.discard_where(
    status text DEFAULT NULL, topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_where', jsonb_build_object('status', coalesce(status,
        CASE WHEN dry_run IS NOT false OR num_nonnulls(topic, event_type, received_from, received_to, error_like,
                                                       max_rows, reason, key, error_code) > 0 THEN 'waiting' END), 'topic', topic,
        'event_type', event_type, 'key', key, 'received_from', received_from, 'received_to', received_to,
        'error_like', error_like, 'error_code', error_code), ARRAY['waiting', 'retrying', 'parked']);
    seqs bigint[] := ARRAY(SELECT inbox.find_page(given, 0, inbox.check_max_rows('discard_where', max_rows)));
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('discard_where', 'dry_run is NULL; it must be true or false');
    ELSIF dry_run THEN
        RETURN cardinality(seqs);
    END IF;
    affected := inbox.discard_seqs(seqs, reason);
    PERFORM inbox.audit('discard', given, reason, affected);
    RETURN affected;
END $$;
