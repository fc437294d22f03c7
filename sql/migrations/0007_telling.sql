-- The index meant for a statement, whatever statistics say; a history that tells of everything an operator did.

-- Three indexes of what waits make room for those of a later migration, waiting_concurrent, which are built while the
-- table is in use. A rename waits for no writer.
ALTER INDEX inbox.inbox_messages_claim RENAME TO inbox_messages_claim_0001;
ALTER INDEX inbox.inbox_messages_key RENAME TO inbox_messages_key_0001;
ALTER INDEX inbox.inbox_messages_position RENAME TO inbox_messages_position_0001;

-- As in 0006, each index by its own predicate.
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
        'partitions', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                           'topic', p.topic, 'kafka_partition', p.kafka_partition,
                           'next_offset', p.next_offset, 'owner', p.owner, 'forced', p.forced,
                           'ordering', p.ordering, 'waiting', p.waiting, 'parked', p.parked,
                           'updated_at', p.updated_at) ORDER BY p.topic, p.kafka_partition), '[]')
                       FROM state p))
$$;

-- As in 0006, but a status alone, also the usual one of a call without arguments, is a filter.
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

-- As in 0005, and what no caller gives but what replays adds behind the check: payload, 'there' for those
-- that can be replayed, 'dropped' for those whose payload retention has dropped (a tombstone never had one).
CREATE OR REPLACE FUNCTION inbox.find_page(filter jsonb, after_seq bigint, max_rows int) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text := filter ->> 'event_type';
    condition text := CASE filter ->> 'status'
        WHEN 'waiting' THEN 'm.available_at > ''-infinity'''
        WHEN 'retrying' THEN 'm.available_at > ''-infinity'' AND m.available_at < ''infinity'' AND m.retry_count > 0'
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
             WHEN filter ? 'error_code' THEN format('m.error_code = %L', filter ->> 'error_code') END,
        CASE filter ->> 'payload' WHEN 'there' THEN '(m.payload IS NOT NULL OR m.payload_digest IS NULL)'
                                  WHEN 'dropped' THEN 'm.payload IS NULL AND m.payload_digest IS NOT NULL' END)
    INTO condition;
    RETURN QUERY EXECUTE 'SELECT m.seq FROM inbox.inbox_messages m WHERE m.seq > $1 AND ' || condition
        || ' ORDER BY m.seq LIMIT $2' USING coalesce(after_seq, 0), max_rows;
END $$;

-- As in 0006, but the usual status is a default again; a dry run counts what can be replayed.
CREATE OR REPLACE FUNCTION inbox.replay_where(
    status text DEFAULT 'dead', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_where', jsonb_build_object('status', status, 'topic', topic,
        'event_type', event_type, 'key', key, 'received_from', received_from, 'received_to', received_to,
        'error_like', error_like, 'error_code', error_code), ARRAY['dead', 'processed']);
    seqs bigint[] := ARRAY(SELECT inbox.find_page(given || '{"payload": "there"}', 0,
        inbox.check_max_rows('replay_where', max_rows)));
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('replay_where', 'dry_run is NULL; it must be true or false');
    ELSIF dry_run THEN
        RETURN cardinality(seqs);
    END IF;
    affected := inbox.replay_seqs(seqs, status, reason);
    PERFORM inbox.audit('replay', given, reason, affected);
    RETURN affected;
END $$;

CREATE OR REPLACE FUNCTION inbox.discard_where(
    status text DEFAULT 'waiting', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_where', jsonb_build_object('status', status, 'topic', topic,
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

-- A page of a replay: for whoever replays many messages and wants short transactions. `last_seq` is where the
-- next page begins, NULL when there is none. Those whose payload is dropped are in no page.
CREATE OR REPLACE FUNCTION inbox.replay_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                  OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_page', filter, ARRAY['dead', 'processed']);
    seqs bigint[] := ARRAY(SELECT inbox.find_page(given || '{"payload": "there"}', after_seq,
        inbox.check_max_rows('replay_page', max_rows)));
BEGIN
    affected := inbox.replay_seqs(seqs, given ->> 'status', reason);
    last_seq := seqs[cardinality(seqs)];
    IF last_seq IS NOT NULL THEN
        PERFORM inbox.audit('replay', given, reason, affected);
    END IF;
END $$;

-- As in 0002, but the history also keeps what else operators did to a message, the last ten times.
CREATE OR REPLACE FUNCTION inbox.remember(attempts jsonb, entry jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(h.entry ORDER BY h.n)
    FROM (SELECT e.entry, e.n, row_number() OVER (PARTITION BY e.entry ? 'attempt' ORDER BY e.n DESC) AS age
          FROM jsonb_array_elements(coalesce(remember.attempts, '[]') || jsonb_build_array(remember.entry))
               WITH ORDINALITY AS e(entry, n)) h
    WHERE h.age <= 10
$$;

-- As in 0002, and who did it is in the history.
CREATE OR REPLACE FUNCTION inbox.discard_seqs(seqs bigint[], reason text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    affected bigint;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.seq = ANY (seqs) AND m.available_at IS NOT NULL
        ORDER BY m.seq
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.inbox_messages m
    SET dead_at = now(), available_at = NULL, suspect = false,
        error = coalesce(discard_seqs.reason, 'discarded'), error_code = 'DISCARDED',
        attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
            'at', now(), 'discarded_by', session_user, 'reason', discard_seqs.reason,
            'error', left(m.error, 1000), 'code', m.error_code)))
    FROM free WHERE m.seq = free.seq;
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN affected;
END $$;

-- A dead row that somebody calls done with plain SQL (processed_at set, dead_at cleared): the history says who. Nothing
-- else fires it: of a row that completes, neither was set before.
CREATE FUNCTION inbox.call_done() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE inbox.inbox_messages m
    SET attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
        'at', now(), 'called_done_by', session_user, 'was', 'dead', 'ended_at', OLD.dead_at,
        'error', left(OLD.error, 1000), 'code', OLD.error_code)))
    WHERE m.seq = NEW.seq;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION inbox.call_done() FROM PUBLIC;

CREATE TRIGGER call_done
AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages
FOR EACH ROW
WHEN (OLD.dead_at IS NOT NULL AND NEW.dead_at IS NULL AND NEW.processed_at IS NOT NULL)
EXECUTE FUNCTION inbox.call_done();

-- A parameter more is another function: the earlier one gives its owner and its grants to it and goes.
ALTER FUNCTION inbox.replay_reject(bigint, text, text, text) RENAME TO replay_reject_0006;

-- A reject that the rules know by now: becomes a message that waits. 'stored', 'duplicate' (it is there already),
-- 'conflict' (there with another payload: kept in inbox_conflicts), or NULL: there is no such reject any more.
-- Who did it and why is the first entry of the message's history.
CREATE FUNCTION inbox.replay_reject(reject_seq bigint, source text, event_id text, event_type text,
                                    reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reject inbox.inbox_rejects;
    digest bytea;
    fate text := 'stored';
BEGIN
    IF coalesce(source, '') = '' OR coalesce(event_id, '') = '' THEN
        PERFORM inbox.refuse('replay_reject', 'source and event_id must be given');
    END IF;
    DELETE FROM inbox.inbox_rejects r WHERE r.seq = reject_seq RETURNING r.* INTO reject;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    digest := substr(sha256(reject.payload), 1, 16);
    INSERT INTO inbox.inbox_messages
        (source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers,
         payload, payload_digest, available_at, attempts)
    VALUES (replay_reject.source, replay_reject.event_id, replay_reject.event_type, reject.topic,
            reject.kafka_partition, reject.kafka_offset, reject.kafka_timestamp, reject.key, reject.headers,
            reject.payload, digest, now(), inbox.remember(NULL, jsonb_strip_nulls(jsonb_build_object(
                'at', now(), 'replayed_by', session_user, 'was', 'rejected', 'reason', replay_reject.reason))))
    ON CONFLICT ON CONSTRAINT inbox_messages_pkey DO NOTHING;
    IF FOUND THEN
        PERFORM pg_notify('inboxd_replay', '');
    ELSE
        INSERT INTO inbox.inbox_conflicts
            (source, event_id, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload,
             payload_digest)
        SELECT m.source, m.event_id, reject.topic, reject.kafka_partition, reject.kafka_offset,
               reject.kafka_timestamp, reject.key, reject.headers, reject.payload, digest
        FROM inbox.inbox_messages m
        WHERE m.event_id = replay_reject.event_id AND m.source = replay_reject.source
          AND m.payload_digest IS DISTINCT FROM digest
        ON CONFLICT DO NOTHING;
        fate := CASE WHEN FOUND THEN 'conflict' ELSE 'duplicate' END;
    END IF;
    PERFORM inbox.audit('replay', jsonb_build_object('reject', reject_seq, 'source', source,
        'event_id', event_id, 'fate', fate), reason, 1);
    RETURN fate;
END $$;

DO $$
DECLARE
    earlier pg_proc;
    given record;
BEGIN
    SELECT o.* INTO earlier FROM pg_class c JOIN pg_proc o ON o.pronamespace = c.relnamespace
    WHERE c.oid = 'inbox.inbox_messages'::regclass AND o.proname = 'replay_reject_0006';
    EXECUTE format('ALTER FUNCTION inbox.replay_reject OWNER TO %s', earlier.proowner::regrole);
    REVOKE ALL ON FUNCTION inbox.replay_reject FROM PUBLIC;
    FOR given IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee,
                        CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
                 FROM aclexplode(coalesce(earlier.proacl, acldefault('f', earlier.proowner))) a
                 WHERE a.grantee <> earlier.proowner LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION inbox.replay_reject TO %s%s', given.grantee, given.option);
    END LOOP;
    DROP FUNCTION inbox.replay_reject_0006;
END $$;

-- As in 0002, and its hint says how the others are replayed.
CREATE OR REPLACE FUNCTION inbox.replay_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.payload IS NULL AND NEW.payload_digest IS NOT NULL THEN
        RAISE EXCEPTION 'inbox.replay: retention has dropped the payload of event %', quote_literal(NEW.event_id)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'To replay the others: AND (payload IS NOT NULL OR payload_digest IS NULL). '
                         'Produce this event again, under a new id.';
    END IF;
    UPDATE inbox.inbox_messages m
    SET available_at = now(), claimed_by = NULL, suspect = false,
        retry_count = 0, crash_count = 0, rescue_count = 0, replay_count = m.replay_count + 1,
        error = NULL, error_code = NULL, result = NULL,
        attempts = inbox.remember(m.attempts, inbox.replay_entry(
            OLD.processed_at, OLD.dead_at, OLD.retry_count, OLD.error, OLD.error_code, OLD.result, NULL))
    WHERE m.seq = NEW.seq;
    PERFORM pg_notify('inboxd_replay', '');
    RETURN NULL;
END $$;
