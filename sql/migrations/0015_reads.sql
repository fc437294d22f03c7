-- What operators read costs the same at any size of the table: each filter follows the index of its status, and stops
-- when it has looked at too much that does not fit.

-- Such a plan is expensive on paper, for another way is ruled out by a price, and is compiled again for every call.
ALTER FUNCTION inbox.status() SET jit = off;
ALTER FUNCTION inbox.purge(interval, int) SET jit = off;
ALTER FUNCTION inbox.retain(int, text, bigint, int) SET jit = off;

-- The seq up to which messages behind after_seq were received before a time; NULL: not known. seq rises with received_at,
-- so the place is searched for. That transactions overlap is the caller's to allow for; a message that was received
-- while the clock was wrong may be on the wrong side. Where 100,000 rows are all there is, looking at them is as good.
CREATE FUNCTION inbox.seq_before(stamp timestamptz, after_seq bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off AS $$
DECLARE
    low bigint;
    high bigint;
    middle bigint;
    step bigint := 1;
    found_seq bigint;
    low_at timestamptz;
    high_at timestamptz;
    found_at timestamptz;
BEGIN
    SELECT m.seq, m.received_at INTO high, high_at FROM inbox.inbox_messages m ORDER BY m.seq DESC LIMIT 1;
    IF high IS NULL OR high - after_seq <= 100000 THEN
        RETURN NULL;
    END IF;
    SELECT m.seq, m.received_at INTO low, low_at FROM inbox.inbox_messages m
    WHERE m.seq > after_seq ORDER BY m.seq LIMIT 1;
    IF high - low <= 100000 OR low_at >= stamp THEN
        RETURN NULL;
    ELSIF high_at < stamp THEN
        RETURN high;
    END IF;
    -- low was received before it, and what is there from high on was not. From the end with steps that double, for what is
    -- asked for is recent mostly, until one went too far; then by halves.
    WHILE high - low > 1 LOOP
        middle := greatest(CASE WHEN step > 0 THEN high - step END, low + (high - low) / 2);
        SELECT m.seq, m.received_at INTO found_seq, found_at FROM inbox.inbox_messages m
        WHERE m.seq >= middle AND m.seq < high ORDER BY m.seq LIMIT 1;
        IF found_at < stamp THEN
            low := found_seq;
            step := 0;
        ELSE
            high := middle;
            step := step * 2;
        END IF;
    END LOOP;
    RETURN low;
END $$;

-- A page of what fits a filter, by seq: at most max_rows, behind a seq. What waits or is dead is read along
-- inbox_messages_state, what is claimed from where instances may hold any, all else along the whole table.
--
-- No index knows types, keys, codes and errors: with max_rows a page ends when 100,000 rows did not fit. Without it all
-- of a status is looked at; but what is processed, or anything, is most of the table, so there it ends, too. Where a page
-- may end, received_from and received_to are looked for first.
-- looked: how many rows that were. last_seq: behind it nothing was looked at; NULL: nothing is there.
CREATE FUNCTION inbox.look_page(filter jsonb, after_seq bigint, max_rows int,
    OUT seqs bigint[], OUT looked bigint, OUT last_seq bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    kind text := filter ->> 'event_type';
    states int[] := CASE filter ->> 'status' WHEN 'dead' THEN '{1}' WHEN 'parked' THEN '{2}' WHEN 'retrying' THEN '{3}'
                                             WHEN 'waiting' THEN '{2,3,4}' ELSE '{}' END;
    claimed boolean := filter ->> 'status' = 'claimed';
    misfits bigint := CASE WHEN max_rows IS NULL AND (claimed OR states <> '{}') THEN NULL ELSE 100000 END;
    overlap interval := '30 seconds'; -- more than that of transactions that store
    after bigint := greatest(coalesce(after_seq, 0), 0);
    last bigint;
    born bigint;
    fits text;
    walks text[];
    walk text;
    fit boolean;
BEGIN
    SELECT concat_ws(' AND ', CASE filter ->> 'status'
            WHEN 'processed' THEN 'm.processed_at IS NOT NULL'
            WHEN 'claimed' THEN 'm.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL'
            ELSE 'true' END,
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
    INTO fits;
    IF filter ? 'received_to' AND misfits > 0 THEN
        last := inbox.seq_before((filter ->> 'received_to')::timestamptz + overlap, after);
    END IF;
    IF filter ? 'received_from' AND misfits > 0 THEN
        after := coalesce(inbox.seq_before((filter ->> 'received_from')::timestamptz - overlap, after), after);
    END IF;
    last := coalesce(last, 9223372036854775807);
    IF states <> '{}' THEN
        SELECT '(' || string_agg(
            'SELECT * FROM inbox.inbox_messages c WHERE (c.dead_at IS NOT NULL OR c.available_at IS NOT NULL)'
            ' AND c.retry_count >= 0 AND'
            ' CASE WHEN c.dead_at IS NOT NULL THEN 1 WHEN c.available_at = ''infinity'' THEN 2 WHEN c.retry_count > 0 THEN 3'
            || format(' ELSE 4 END = %s AND c.seq + 0 > %%1$s AND c.seq + 0 <= %%2$s', n), ' UNION ALL ')
            || ') m ORDER BY m.seq + 0' INTO walk FROM unnest(states) n;
        walks := ARRAY[walk];
    ELSE
        walks := ARRAY['inbox.inbox_messages m WHERE m.seq > %1$s AND m.seq <= %2$s ORDER BY m.seq'];
    END IF;
    IF claimed THEN
        -- Rows that instances claimed from the table; then all from the lowest seq on that one was born holding.
        SELECT min(i.low_seq) INTO born FROM inbox.inbox_instances i WHERE i.rescued_at IS NULL;
        born := coalesce(born, 9223372036854775807);
        walks := 'inbox.inbox_instances i CROSS JOIN LATERAL (SELECT * FROM inbox.inbox_messages c'
            ' WHERE c.claimed_by = i.id AND c.claim_number >= i.low_claim AND c.delivery_count > 1 OFFSET 0) m'
            ' WHERE i.rescued_at IS NULL AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL'
            || format(' AND m.seq < %s AND m.seq > %%1$s AND m.seq <= %%2$s ORDER BY m.seq', born) || walks;
    END IF;
    seqs := '{}';
    looked := 0;
    FOREACH walk IN ARRAY walks LOOP
        FOR last_seq, fit IN EXECUTE format('SELECT m.seq, (%s) FROM %s LIMIT %s', fits, format(walk, after, last),
                coalesce(misfits + max_rows, 9223372036854775807)) LOOP
            looked := looked + 1;
            IF fit THEN
                seqs := seqs || last_seq;
            ELSE
                misfits := misfits - 1;
            END IF;
            IF misfits = 0 OR cardinality(seqs) = max_rows THEN
                RETURN;
            END IF;
        END LOOP;
        after := greatest(after, born - 1);
    END LOOP;
    last_seq := NULL;
END $$;

-- For an inboxd of before: it knows nothing of how far a page looked.
CREATE OR REPLACE FUNCTION inbox.find_page(filter jsonb, after_seq bigint, max_rows int) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT unnest(p.seqs) FROM inbox.look_page(filter, after_seq, max_rows) p
$$;

-- Says how far a call looked that could not look at all there is.
CREATE FUNCTION inbox.warn_of_rest(caller text, looked bigint, last_seq bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE WARNING '%', 'inbox' || '.' || caller || ': looked at ' || looked || ' messages, as far as seq ' || last_seq
        USING DETAIL = 'So many did not fit that none behind that one was looked at.',
              HINT = 'Call it again with after_seq => ' || last_seq || ', or narrow it with received_from.';
END $$;

-- A parameter more is another function: the earlier ones give their owners and their grants to these and go.
ALTER FUNCTION inbox.replay_where(text, text, text, timestamptz, timestamptz, text, int, text, boolean, text, text)
    RENAME TO replay_where_0007;
ALTER FUNCTION inbox.discard_where(text, text, text, timestamptz, timestamptz, text, int, text, boolean, text, text)
    RENAME TO discard_where_0007;

-- Everything that fits, in one transaction; dry_run only counts. after_seq goes on where an earlier call ended.
CREATE FUNCTION inbox.replay_where(
    status text DEFAULT 'dead', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL, after_seq bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_where', jsonb_build_object('status', status, 'topic', topic,
        'event_type', event_type, 'key', key, 'received_from', received_from, 'received_to', received_to,
        'error_like', error_like, 'error_code', error_code), ARRAY['dead', 'processed']);
    page record;
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('replay_where', 'dry_run is NULL; it must be true or false');
    END IF;
    SELECT * INTO page FROM inbox.look_page(given || '{"payload": "there"}', after_seq,
        inbox.check_max_rows('replay_where', max_rows));
    affected := cardinality(page.seqs);
    IF page.last_seq IS NOT NULL AND affected IS DISTINCT FROM max_rows THEN
        PERFORM inbox.warn_of_rest('replay_where', page.looked, page.last_seq);
    END IF;
    IF NOT dry_run THEN
        affected := inbox.replay_seqs(page.seqs, status, reason);
        PERFORM inbox.audit('replay', given, reason, affected);
    END IF;
    RETURN affected;
END $$;

CREATE FUNCTION inbox.discard_where(
    status text DEFAULT 'waiting', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL, after_seq bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_where', jsonb_build_object('status', status, 'topic', topic,
        'event_type', event_type, 'key', key, 'received_from', received_from, 'received_to', received_to,
        'error_like', error_like, 'error_code', error_code), ARRAY['waiting', 'retrying', 'parked']);
    page record;
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('discard_where', 'dry_run is NULL; it must be true or false');
    END IF;
    SELECT * INTO page FROM inbox.look_page(given, after_seq, inbox.check_max_rows('discard_where', max_rows));
    affected := cardinality(page.seqs);
    IF page.last_seq IS NOT NULL AND affected IS DISTINCT FROM max_rows THEN
        PERFORM inbox.warn_of_rest('discard_where', page.looked, page.last_seq);
    END IF;
    IF NOT dry_run THEN
        affected := inbox.discard_seqs(page.seqs, reason);
        PERFORM inbox.audit('discard', given, reason, affected);
    END IF;
    RETURN affected;
END $$;

-- A page of a replay: for whoever replays many messages and wants short transactions. `last_seq` is where the
-- next page begins, NULL when there is none; a page in which nothing fits may have one. Those whose payload is dropped
-- are in no page.
CREATE OR REPLACE FUNCTION inbox.replay_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                  OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('replay_page', filter, ARRAY['dead', 'processed']);
    page record;
BEGIN
    SELECT * INTO page FROM inbox.look_page(given || '{"payload": "there"}', after_seq,
        inbox.check_max_rows('replay_page', max_rows));
    affected := inbox.replay_seqs(page.seqs, given ->> 'status', reason);
    last_seq := coalesce(page.last_seq, page.seqs[cardinality(page.seqs)]);
    IF page.seqs <> '{}' THEN
        PERFORM inbox.audit('replay', given, reason, affected);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION inbox.discard_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                   OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_page', filter, ARRAY['waiting', 'retrying', 'parked']);
    page record;
BEGIN
    SELECT * INTO page FROM inbox.look_page(given, after_seq, inbox.check_max_rows('discard_page', max_rows));
    affected := inbox.discard_seqs(page.seqs, reason);
    last_seq := coalesce(page.last_seq, page.seqs[cardinality(page.seqs)]);
    IF page.seqs <> '{}' THEN
        PERFORM inbox.audit('discard', given, reason, affected);
    END IF;
END $$;

DO $$
DECLARE
    heir record;
    given record;
BEGIN
    FOR heir IN SELECT p.oid::regprocedure AS routine, e.oid::regprocedure AS earlier, e.proowner, e.proacl
                FROM (VALUES ('replay_where', 'replay_where_0007'), ('discard_where', 'discard_where_0007'),
                             ('look_page', 'find_page'), ('seq_before', 'find_page'),
                             ('warn_of_rest', 'replay_seqs')) v(name, before)
                JOIN pg_class c ON c.oid = 'inbox.inbox_messages'::regclass
                JOIN pg_proc p ON p.pronamespace = c.relnamespace AND p.proname = v.name
                JOIN pg_proc e ON e.pronamespace = c.relnamespace AND e.proname = v.before LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', heir.routine);
        EXECUTE format('ALTER FUNCTION %s OWNER TO %s', heir.routine, heir.proowner::regrole);
        FOR given IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee,
                            CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
                     FROM aclexplode(coalesce(heir.proacl, acldefault('f', heir.proowner))) a
                     WHERE a.grantee <> heir.proowner LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s%s', heir.routine, given.grantee, given.option);
        END LOOP;
    END LOOP;
END $$;
DROP FUNCTION inbox.replay_where_0007, inbox.discard_where_0007;
