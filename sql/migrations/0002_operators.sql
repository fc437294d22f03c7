-- What operators do in the database: find, replay, discard, purge, seek, adopt, status. Each function that
-- changes something leaves a row in inbox_audit and never touches a claimed message.
--
-- Filters are one jsonb object: status, topic, event_type (* at the end = prefix), key (text),
-- received_from, received_to, error_like. It is what the audit keeps of a call.

-- One error for every argument that is wrong: 22023, with the function's name and what it wants.
CREATE FUNCTION inbox.refuse(caller text, words text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '%', 'inbox' || '.' || caller || ': ' || words USING ERRCODE = 'invalid_parameter_value';
END $$;

-- The filter without what is not given, checked. `allowed` are the states the caller works on.
CREATE FUNCTION inbox.check_filter(caller text, filter jsonb, allowed text[]) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := jsonb_strip_nulls(filter);
    name text;
BEGIN
    SELECT k INTO name FROM jsonb_object_keys(given) k
    WHERE k NOT IN ('status', 'topic', 'event_type', 'key', 'received_from', 'received_to', 'error_like');
    IF name IS NOT NULL THEN
        PERFORM inbox.refuse(caller, format('there is no filter "%s"', name));
    END IF;
    IF NOT coalesce(given ->> 'status' = ANY (allowed), false) THEN
        PERFORM inbox.refuse(caller, format('status is %s; it may be %s',
            coalesce(quote_literal(given ->> 'status'), 'NULL'), array_to_string(allowed, ', ')));
    END IF;
    FOR name IN SELECT k FROM jsonb_object_keys(given) k LOOP
        IF given ->> name = '' AND name <> 'key' THEN
            PERFORM inbox.refuse(caller, name || ' is empty; leave it out for any');
        END IF;
    END LOOP;
    IF (given ->> 'received_from')::timestamptz > (given ->> 'received_to')::timestamptz THEN
        PERFORM inbox.refuse(caller, 'received_from is later than received_to');
    END IF;
    RETURN given;
END $$;

CREATE FUNCTION inbox.check_max_rows(caller text, max_rows int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF max_rows < 1 THEN
        PERFORM inbox.refuse(caller, format('max_rows is %s; it must be at least 1', max_rows));
    END IF;
    RETURN max_rows;
END $$;

-- The seqs of what fits a filter, rising, after a seq: a page. The text of the query has only what was asked
-- for, so that the planner sees which index serves it.
CREATE FUNCTION inbox.find_page(filter jsonb, after_seq bigint, max_rows int) RETURNS SETOF bigint
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
        CASE WHEN filter ? 'error_like' THEN format('m.error LIKE %L', filter ->> 'error_like') END)
    INTO condition;
    RETURN QUERY EXECUTE 'SELECT m.seq FROM inbox.inbox_messages m WHERE m.seq > $1 AND ' || condition
        || ' ORDER BY m.seq LIMIT $2' USING coalesce(after_seq, 0), max_rows;
END $$;

CREATE FUNCTION inbox.audit(action text, filter jsonb, reason text, affected bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO inbox.inbox_audit (action, filter, reason, affected)
    VALUES (audit.action, audit.filter, audit.reason, audit.affected)
$$;

-- The history with one more entry: the last ten failed attempts and the last ten replays are kept.
CREATE FUNCTION inbox.remember(attempts jsonb, entry jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(h.entry ORDER BY h.n)
    FROM (SELECT e.entry, e.n, row_number() OVER (PARTITION BY e.entry ? 'replayed_by' ORDER BY e.n DESC) AS age
          FROM jsonb_array_elements(coalesce(remember.attempts, '[]') || jsonb_build_array(remember.entry))
               WITH ORDINALITY AS e(entry, n)) h
    WHERE h.age <= 10
$$;

-- What a replay notes of the run before it. A large result is named, not kept. Single columns, not the row:
-- that would fetch its payload.
CREATE FUNCTION inbox.replay_entry(processed_at timestamptz, dead_at timestamptz, retry_count int, error text,
                                   error_code text, result jsonb, reason text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
               'at', now(), 'replayed_by', session_user, 'reason', reason,
               'was', CASE WHEN dead_at IS NOT NULL THEN 'dead' ELSE 'processed' END,
               'ended_at', coalesce(dead_at, processed_at), 'attempts', retry_count,
               'error', left(error, 1000), 'code', error_code))
           || CASE WHEN result IS NULL THEN '{}'
                   WHEN octet_length(result::text) > 4096
                   THEN jsonb_build_object('result_bytes', octet_length(result::text))
                   ELSE jsonb_build_object('result', result) END
$$;

-- Runs rows again: those of them that are done or given up (or in the one state asked for), not locked by
-- anybody, and still have their payload (retention drops payloads and keeps their digest; a tombstone never had
-- one). As new, behind what they went through.
CREATE FUNCTION inbox.replay_seqs(seqs bigint[], status text, reason text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    affected bigint;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.seq = ANY (seqs) AND (m.payload IS NOT NULL OR m.payload_digest IS NULL)
          AND CASE replay_seqs.status WHEN 'dead' THEN m.dead_at IS NOT NULL
                                      WHEN 'processed' THEN m.processed_at IS NOT NULL
                                      ELSE m.dead_at IS NOT NULL OR m.processed_at IS NOT NULL END
        ORDER BY m.seq
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.inbox_messages m
    SET processed_at = NULL, dead_at = NULL, available_at = now(), claimed_by = NULL, suspect = false,
        retry_count = 0, crash_count = 0, rescue_count = 0, replay_count = m.replay_count + 1,
        error = NULL, error_code = NULL, result = NULL,
        attempts = inbox.remember(m.attempts, inbox.replay_entry(
            m.processed_at, m.dead_at, m.retry_count, m.error, m.error_code, m.result, replay_seqs.reason))
    FROM free WHERE m.seq = free.seq;
    GET DIAGNOSTICS affected = ROW_COUNT;
    IF affected > 0 THEN
        PERFORM pg_notify('inboxd_replay', '');
    END IF;
    RETURN affected;
END $$;

-- Gives up rows that wait, with a reason.
CREATE FUNCTION inbox.discard_seqs(seqs bigint[], reason text) RETURNS bigint
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
        error = coalesce(discard_seqs.reason, 'discarded'), error_code = 'DISCARDED'
    FROM free WHERE m.seq = free.seq;
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN affected;
END $$;

-- One message. False: there is none, or it is neither processed nor dead now.
CREATE FUNCTION inbox.replay(source text, event_id text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    row_seq bigint;
    dropped boolean;
    affected bigint := 0;
BEGIN
    IF source IS NULL OR event_id IS NULL THEN
        PERFORM inbox.refuse('replay', 'source and event_id must be given');
    END IF;
    SELECT m.seq, m.payload IS NULL AND m.payload_digest IS NOT NULL INTO row_seq, dropped
    FROM inbox.inbox_messages m
    WHERE m.event_id = replay.event_id AND m.source = replay.source
      AND (m.processed_at IS NOT NULL OR m.dead_at IS NOT NULL);
    IF dropped THEN
        RAISE EXCEPTION 'inbox.replay: retention has dropped the payload of event %', quote_literal(event_id)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Produce the event again, under a new id.';
    END IF;
    IF row_seq IS NOT NULL THEN
        affected := inbox.replay_seqs(ARRAY[row_seq], NULL, reason);
    END IF;
    PERFORM inbox.audit('replay', jsonb_build_object('source', source, 'event_id', event_id), reason, affected);
    RETURN affected > 0;
END $$;

CREATE FUNCTION inbox.discard(source text, event_id text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    affected bigint;
BEGIN
    IF source IS NULL OR event_id IS NULL THEN
        PERFORM inbox.refuse('discard', 'source and event_id must be given');
    END IF;
    affected := inbox.discard_seqs(ARRAY(
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.event_id = discard.event_id AND m.source = discard.source), reason);
    PERFORM inbox.audit('discard', jsonb_build_object('source', source, 'event_id', event_id), reason, affected);
    RETURN affected > 0;
END $$;

-- A page of a replay: for whoever replays many messages and wants short transactions. `last_seq` is where the
-- next page begins, NULL when there is none.
CREATE FUNCTION inbox.replay_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                  OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_page', filter, ARRAY['dead', 'processed']);
    seqs bigint[] := ARRAY(SELECT inbox.find_page(given, after_seq, inbox.check_max_rows('replay_page', max_rows)));
BEGIN
    affected := inbox.replay_seqs(seqs, given ->> 'status', reason);
    last_seq := seqs[cardinality(seqs)];
    IF last_seq IS NOT NULL THEN
        PERFORM inbox.audit('replay', given, reason, affected);
    END IF;
END $$;

CREATE FUNCTION inbox.discard_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                   OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_page', filter, ARRAY['waiting', 'retrying', 'parked']);
    seqs bigint[] := ARRAY(SELECT inbox.find_page(given, after_seq, inbox.check_max_rows('discard_page', max_rows)));
BEGIN
    affected := inbox.discard_seqs(seqs, reason);
    last_seq := seqs[cardinality(seqs)];
    IF last_seq IS NOT NULL THEN
        PERFORM inbox.audit('discard', given, reason, affected);
    END IF;
END $$;

-- A reject that the rules know by now: becomes a message that waits. 'stored', 'duplicate' (it is there already),
-- 'conflict' (there with another payload: kept in inbox_conflicts), or NULL: there is no such reject any more.
CREATE FUNCTION inbox.replay_reject(reject_seq bigint, source text, event_id text, event_type text) RETURNS text
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
         payload, payload_digest, available_at)
    VALUES (replay_reject.source, replay_reject.event_id, replay_reject.event_type, reject.topic,
            reject.kafka_partition, reject.kafka_offset, reject.kafka_timestamp, reject.key, reject.headers,
            reject.payload, digest, now())
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
        'event_id', event_id, 'fate', fate), NULL, 1);
    RETURN fate;
END $$;

-- Everything that fits, in one transaction; dry_run only counts.
CREATE FUNCTION inbox.replay_where(
    status text DEFAULT 'dead', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_where', jsonb_build_object('status', status, 'topic', topic,
        'event_type', event_type, 'key', key, 'received_from', received_from, 'received_to', received_to,
        'error_like', error_like), ARRAY['dead', 'processed']);
    seqs bigint[] := ARRAY(SELECT inbox.find_page(given, 0, inbox.check_max_rows('replay_where', max_rows)));
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('replay_where', 'dry_run is NULL; it must be true or false');
    ELSIF dry_run THEN
        RETURN (SELECT count(*) FROM inbox.inbox_messages m
                WHERE m.seq = ANY (seqs) AND (m.payload IS NOT NULL OR m.payload_digest IS NULL));
    END IF;
    affected := inbox.replay_seqs(seqs, status, reason);
    PERFORM inbox.audit('replay', given, reason, affected);
    RETURN affected;
END $$;

CREATE FUNCTION inbox.discard_where(
    status text DEFAULT 'waiting', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_where', jsonb_build_object('status', status, 'topic', topic,
        'event_type', event_type, 'key', key, 'received_from', received_from, 'received_to', received_to,
        'error_like', error_like), ARRAY['waiting', 'retrying', 'parked']);
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

-- Deletes processed messages, the oldest first. No index knows when a message was processed (that would cost
-- every completion), so the table is walked from its lowest seq, and no further than what was received before.
CREATE FUNCTION inbox.purge(older_than interval, max_rows int DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    before timestamptz := now() - older_than;
    room bigint := coalesce(inbox.check_max_rows('purge', max_rows), 9223372036854775807);
    at bigint := 0;
    earliest timestamptz;
    deleted bigint;
    total bigint := 0;
BEGIN
    IF older_than IS NULL OR older_than < interval '0' THEN
        PERFORM inbox.refuse('purge', format('older_than is %s; it must be an age, 0 or more',
            coalesce(quote_literal(older_than), 'NULL')));
    END IF;
    LOOP
        WITH walked AS MATERIALIZED (
            SELECT m.seq, m.received_at, m.processed_at FROM inbox.inbox_messages m
            WHERE m.seq > at ORDER BY m.seq LIMIT 5000
        ), old AS MATERIALIZED (
            SELECT m.seq FROM inbox.inbox_messages m
            WHERE m.seq IN (SELECT w.seq FROM walked w WHERE w.processed_at <= before)
              AND m.processed_at <= before
            ORDER BY m.seq LIMIT least(room - total, 5000)
            FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM inbox.inbox_messages m USING old WHERE m.seq = old.seq RETURNING 1
        )
        SELECT max(w.seq), min(w.received_at), (SELECT count(*) FROM gone)
        INTO at, earliest, deleted FROM walked w;
        total := total + deleted;
        EXIT WHEN at IS NULL OR earliest > before OR total >= room;
    END LOOP;
    PERFORM inbox.audit('purge', jsonb_build_object('older_than', older_than::text), NULL, total);
    RETURN total;
END $$;

-- Moves the watermark of a partition. The epoch tells a running sidecar, which looks every few seconds; until
-- the first batch after it the watermark alone decides where to read, whatever the group's offset.
CREATE FUNCTION inbox.seek(topic text, kafka_partition int, next_offset bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earlier bigint;
BEGIN
    IF coalesce(next_offset, -1) < 0 THEN
        PERFORM inbox.refuse('seek', format('next_offset is %s; it must be an offset, 0 or more',
            coalesce(next_offset::text, 'NULL')));
    END IF;
    SELECT o.next_offset INTO earlier FROM inbox.inbox_offsets o
    WHERE o.topic = seek.topic AND o.kafka_partition = seek.kafka_partition
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        PERFORM inbox.refuse('seek', format('no sidecar has ever read partition %s of topic %s',
            coalesce(kafka_partition::text, 'NULL'), coalesce(quote_literal(topic), 'NULL')));
    END IF;
    UPDATE inbox.inbox_offsets o
    SET next_offset = seek.next_offset, epoch = o.epoch + 1, forced = true,
        last_offset = NULL, last_timestamp = NULL, updated_at = now()
    WHERE o.topic = seek.topic AND o.kafka_partition = seek.kafka_partition;
    PERFORM inbox.audit('seek', jsonb_build_object('topic', topic, 'kafka_partition', kafka_partition,
        'from', earlier, 'to', next_offset), NULL, 1);
END $$;

-- Gives the schema to another Kafka cluster or group. False: it was theirs already.
CREATE FUNCTION inbox.adopt(cluster_id text, group_id text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earlier inbox.inbox_binding;
    alive inbox.inbox_instances;
BEGIN
    IF coalesce(cluster_id, '') = '' OR coalesce(group_id, '') = '' THEN
        PERFORM inbox.refuse('adopt', 'cluster_id and group_id must be given');
    END IF;
    SELECT i.* INTO alive FROM inbox.inbox_instances i
    WHERE i.fenced_at IS NULL AND i.heartbeat_at > clock_timestamp() - interval '1 minute' LIMIT 1;
    IF alive.id IS NOT NULL THEN
        RAISE EXCEPTION 'inbox.adopt: sidecar "%" is running: its last heartbeat is % s old', alive.name,
            round(extract(epoch FROM clock_timestamp() - alive.heartbeat_at))
            USING ERRCODE = 'object_in_use',
                  HINT = 'Stop all sidecars of this schema first; one that was killed counts for a minute.';
    END IF;
    SELECT b.* INTO earlier FROM inbox.inbox_binding b FOR UPDATE;
    INSERT INTO inbox.inbox_binding AS b (cluster_id, group_id) VALUES (adopt.cluster_id, adopt.group_id)
    ON CONFLICT (only_row) DO UPDATE
    SET cluster_id = excluded.cluster_id, group_id = excluded.group_id, bound_at = now()
    WHERE (b.cluster_id, b.group_id) <> (excluded.cluster_id, excluded.group_id);
    PERFORM inbox.audit('adopt', jsonb_build_object('cluster_id', cluster_id, 'group_id', group_id,
        'from_cluster_id', earlier.cluster_id, 'from_group_id', earlier.group_id), reason, FOUND::int);
    RETURN (earlier.cluster_id, earlier.group_id) IS DISTINCT FROM (adopt.cluster_id, adopt.group_id);
END $$;

-- Counts stop at 10,000, so that it costs the same at any size; "10000" then means "or more".
CREATE FUNCTION inbox.status() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    WITH state AS MATERIALIZED (
        SELECT o.*, w.waiting, w.oldest, k.parked
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

-- Dead messages that died of the same thing.
-- An error without what differs from message to message: ids, quoted values, numbers.
CREATE FUNCTION inbox.error_shape(error text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT left(regexp_replace(regexp_replace(regexp_replace(regexp_replace(left(error, 1000),
        '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '<id>', 'g'),
        '"[^"]*"|(^|(?<=[^[:alnum:]]))''[^'']*''', '<text>', 'g'),
        '\m(0x[0-9a-fA-F]+|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{12,})\M', '<id>', 'g'),
        '[0-9]+', '#', 'g'), 200)
$$;

CREATE VIEW inbox.dead_groups AS
SELECT m.event_type, m.error_code, inbox.error_shape(m.error) AS error_shape, count(*) AS messages,
       min(m.dead_at) AS first_dead_at, max(m.dead_at) AS last_dead_at, max(m.seq) AS latest_seq
FROM inbox.inbox_messages m
WHERE m.dead_at IS NOT NULL
GROUP BY 1, 2, 3;

-- A row whose processed_at or dead_at somebody clears with plain SQL: as inbox.replay() leaves it. AFTER, not
-- BEFORE: a BEFORE trigger would lock every row that completes.
CREATE FUNCTION inbox.replay_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.payload IS NULL AND NEW.payload_digest IS NOT NULL THEN
        RAISE EXCEPTION 'inbox.replay: retention has dropped the payload of event %', quote_literal(NEW.event_id)
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Produce the event again, under a new id.';
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

CREATE TRIGGER replay
AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages
FOR EACH ROW
WHEN (NEW.processed_at IS NULL AND NEW.dead_at IS NULL AND NEW.available_at IS NULL
      AND (OLD.processed_at IS NOT NULL OR OLD.dead_at IS NOT NULL))
EXECUTE FUNCTION inbox.replay_row();

-- Nobody but the owner calls these; `inboxd migrate --roles` says who else may what.
DO $$
DECLARE
    routine regprocedure;
BEGIN
    FOR routine IN SELECT p.oid FROM pg_proc p JOIN pg_class c ON c.relnamespace = p.pronamespace
                   WHERE c.oid = 'inbox.inbox_messages'::regclass LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
    END LOOP;
END $$;
