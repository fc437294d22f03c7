-- A filter by error code: error_code of a filter is the whole code, as the row has it.

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
        IF given ->> name = '' AND name <> 'key' THEN
            PERFORM inbox.refuse(caller, name || ' is empty; leave it out for any');
        END IF;
    END LOOP;
    IF (given ->> 'received_from')::timestamptz > (given ->> 'received_to')::timestamptz THEN
        PERFORM inbox.refuse(caller, 'received_from is later than received_to');
    END IF;
    RETURN given;
END $$;

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
        CASE WHEN filter ? 'error_code' THEN format('m.error_code = %L', filter ->> 'error_code') END)
    INTO condition;
    RETURN QUERY EXECUTE 'SELECT m.seq FROM inbox.inbox_messages m WHERE m.seq > $1 AND ' || condition
        || ' ORDER BY m.seq LIMIT $2' USING coalesce(after_seq, 0), max_rows;
END $$;

-- A parameter more is another function: the earlier ones give their owner and their grants to it and go. It comes last,
-- so that calls by name and by position mean what they meant.
ALTER FUNCTION inbox.replay_where(text, text, text, timestamptz, timestamptz, text, int, text, boolean, text)
    RENAME TO replay_where_0004;
ALTER FUNCTION inbox.discard_where(text, text, text, timestamptz, timestamptz, text, int, text, boolean, text)
    RENAME TO discard_where_0004;

CREATE FUNCTION inbox.replay_where(
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

DO $$
DECLARE
    pair record;
    given record;
BEGIN
    FOR pair IN SELECT o.oid::regprocedure AS earlier, n.oid::regprocedure AS later, o.proowner::regrole AS owner,
                       coalesce(o.proacl, acldefault('f', o.proowner)) AS acl
                FROM pg_class c
                JOIN pg_proc o ON o.pronamespace = c.relnamespace AND o.proname LIKE '%\_where\_0004'
                JOIN pg_proc n ON n.pronamespace = c.relnamespace AND n.proname = replace(o.proname, '_0004', '')
                WHERE c.oid = 'inbox.inbox_messages'::regclass LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO %s', pair.later, pair.owner);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', pair.later);
        FOR given IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee,
                            CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
                     FROM aclexplode(pair.acl) a WHERE a.grantee::regrole <> pair.owner LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s%s', pair.later, given.grantee, given.option);
        END LOOP;
        EXECUTE format('DROP FUNCTION %s', pair.earlier);
    END LOOP;
END $$;
