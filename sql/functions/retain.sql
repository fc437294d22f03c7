-- Retention: the rows that sidecars may delete, and how they find them (docs/adr/0014).

-- True: this instance runs retention now; inbox_janitor's row stays locked until the end of the transaction.
-- Another instance takes over when this one is fenced, or was not seen for half a minute. Does not wait.
CREATE OR REPLACE FUNCTION inbox.elect_janitor(instance int) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO inbox.inbox_janitor (instance)
    SELECT elect_janitor.instance WHERE NOT EXISTS (SELECT FROM inbox.inbox_janitor)
    ON CONFLICT DO NOTHING;
    PERFORM FROM inbox.inbox_janitor j
    WHERE EXISTS (SELECT FROM inbox.inbox_instances i WHERE i.id = elect_janitor.instance AND i.fenced_at IS NULL)
      AND (j.instance = elect_janitor.instance
           OR j.seen_at < clock_timestamp() - interval '30 seconds'
           OR NOT EXISTS (SELECT FROM inbox.inbox_instances i WHERE i.id = j.instance AND i.fenced_at IS NULL))
    FOR NO KEY UPDATE OF j SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE inbox.inbox_janitor j SET instance = elect_janitor.instance, seen_at = clock_timestamp();
    RETURN true;
END $$;

-- One window of messages after a seq: those processed before `before`, which will be deleted, or (payloads) lose payload and
-- headers and keep their digest. A tombstone has no payload and is not changed.
-- The walk continues to the last row that was received early enough, so that hardly any earlier row is unfinished. A
-- row with a future time (from a wrong clock) does not stop the walk.
CREATE OR REPLACE FUNCTION inbox.walk_window(payloads boolean, before timestamptz, early_enough timestamptz, after_seq bigint,
    last_seq bigint, max_rows int, OUT ended text[], OUT reached bigint, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    looked bigint;
    last_looked bigint;
BEGIN
    SELECT array_agg(w.seq ORDER BY w.seq) FILTER (WHERE w.processed_at <= before AND (w.whole OR NOT payloads)),
           max(w.seq) FILTER (WHERE w.received_at <= early_enough
                              OR w.received_at > clock_timestamp() + interval '1 hour'),
           count(*), max(w.seq)
    INTO ended, reached, looked, last_looked
    FROM (SELECT m.seq, m.received_at, m.processed_at, m.payload IS NOT NULL AS whole
          FROM inbox.inbox_messages m
          WHERE m.seq > after_seq AND m.seq <= last_seq
          ORDER BY m.seq LIMIT max_rows) w;
    more := looked = max_rows AND coalesce(reached = last_looked, false);
    reached := coalesce(reached, after_seq);
END $$;

-- One step of one of the two walks over messages. Rows that were skipped (not finished then, replayed, locked, refused) are
-- visited again from the lowest seq, a tenth of the age after the last time, at most a day after it.
CREATE OR REPLACE FUNCTION inbox.walk_both(what text, age interval, max_rows int, OUT ended text[], OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := now() - age;
    tenth interval := age / 10;
    walk jsonb := coalesce((SELECT j.walks -> what FROM inbox.inbox_janitor j), '{}');
    front bigint := coalesce((walk ->> 'front')::bigint, 0);
    again bigint := coalesce((walk ->> 'again')::bigint, 0);
    rested_at timestamptz := coalesce((walk ->> 'rested_at')::timestamptz, now());
    skipped text[];
BEGIN
    SELECT w.ended, w.reached, w.more INTO ended, front, more
    FROM inbox.walk_window(what = 'payload', before, before - least(tenth, interval '1 hour'), front,
                             9223372036854775807, max_rows) w;
    IF NOT more AND (again > 0 OR rested_at <= now() - least(tenth, interval '1 day')) THEN
        SELECT w.ended, w.reached, w.more INTO skipped, again, more
        FROM inbox.walk_window(what = 'payload', before, 'infinity', again, front, max_rows) w;
        ended := ended || skipped;
        IF NOT more THEN
            again := 0;
            rested_at := now();
        END IF;
    END IF;
    UPDATE inbox.inbox_janitor j
    SET walks = j.walks || jsonb_build_object(what, jsonb_build_object(
        'front', front, 'again', again, 'rested_at', rested_at));
END $$;

-- One window of published events in the order of seq. The walk goes on to the last event that was created early enough.
-- At its end it begins again if it began long ago, a tenth of the age and at most a day: so it finds events that were
-- published late.
CREATE OR REPLACE FUNCTION inbox.walk_published(age interval, max_rows int, OUT ended text[], OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := now() - age;
    walk jsonb := coalesce((SELECT j.walks -> 'outbox' FROM inbox.inbox_janitor j), '{}');
    front bigint := coalesce((walk ->> 'front')::bigint, 0);
    begun_at timestamptz := coalesce((walk ->> 'begun_at')::timestamptz, now());
    looked bigint;
    reached bigint;
    last_looked bigint;
BEGIN
    SELECT array_agg(w.seq) FILTER (WHERE w.published_at <= before), max(w.seq) FILTER (WHERE w.created_at <= before),
           count(*), max(w.seq)
    INTO ended, reached, looked, last_looked
    FROM (SELECT o.seq, o.created_at, o.published_at FROM inbox.outbox o
          WHERE o.seq > front ORDER BY o.seq LIMIT max_rows) w;
    more := looked = max_rows AND coalesce(reached = last_looked, false);
    front := coalesce(reached, front);
    IF NOT more AND begun_at <= now() - least(age / 10, interval '1 day') THEN
        front := 0;
        begun_at := now();
    END IF;
    UPDATE inbox.inbox_janitor j
    SET walks = j.walks || jsonb_build_object('outbox', jsonb_build_object('front', front, 'begun_at', begun_at));
END $$;

-- The kinds of rows. id: identifies a row for PostgreSQL; name: identifies it for people. due: the condition for the change, which is checked
-- again under the lock of the row; $1 is the time that its stamp must not exceed. at, number: the order in which walk_rows() looks at
-- the rows, which an index has; looked: the condition of that index.
CREATE OR REPLACE FUNCTION inbox.retain_kind(what text, OUT from_table regclass, OUT id text, OUT name text, OUT due text,
    OUT at text, OUT number text, OUT looked text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.from_table::regclass, k.id, k.name, k.due, k.at, k.number, coalesce(k.looked, 'true')
    FROM (VALUES
        ('payload', 'inbox.inbox_messages', 'seq', 'format(''seq %s, event %s'', t.seq, t.event_id)',
         't.processed_at <= $1', NULL, NULL, NULL),
        ('processed', 'inbox.inbox_messages', 'seq', 'format(''seq %s, event %s'', t.seq, t.event_id)',
         't.processed_at <= $1', NULL, NULL, NULL),
        ('dead', 'inbox.inbox_messages', 'seq', 'format(''seq %s, event %s'', t.seq, t.event_id)',
         't.dead_at <= $1', 't.dead_at', 't.seq', 't.dead_at <= $1'),
        -- those that were not produced to the dead topic stay
        ('dead_produced', 'inbox.inbox_messages', 'seq', 'format(''seq %s, event %s'', t.seq, t.event_id)',
         't.dead_at <= $1 AND (t.claimed_by IS NULL OR t.dead_topic_at IS NOT DISTINCT FROM t.dead_at)',
         't.dead_at', 't.seq', 't.dead_at <= $1'),
        ('rejects', 'inbox.inbox_rejects', 'seq', 'format(''seq %s'', t.seq)', 't.received_at <= $1', NULL, 't.seq', NULL),
        ('conflicts', 'inbox.inbox_conflicts', 'seq', 'format(''seq %s'', t.seq)', 't.received_at <= $1', NULL, 't.seq', NULL),
        ('audit', 'inbox.inbox_audit', 'seq', 'format(''seq %s'', t.seq)', 't.at <= $1', NULL, 't.seq', NULL),
        ('instances', 'inbox.inbox_instances', 'id', 'format(''id %s'', t.id)', 't.rescued_at <= $1', NULL, 't.id', NULL),
        ('outbox', 'inbox.outbox', 'seq', 'format(''seq %s, event %s'', t.seq, t.event_id)', 't.published_at <= $1',
         NULL, NULL, NULL),
        ('outbox_dead', 'inbox.outbox', 'seq', 'format(''seq %s, event %s'', t.seq, t.event_id)', 't.dead_at <= $1',
         't.dead_at', 't.seq', 't.dead_at <= $1'),
        -- a lease never ends after expires_at
        ('requests', 'inbox.requests', 'ctid', 'format(''scope %L, key %L'', t.scope, t.key)', 't.expires_at <= $1',
         't.expires_at', NULL, 't.expires_at <= $1'),
        -- completed ones leave the index requests_leased, which their completion did not touch
        ('requests_leased', 'inbox.requests', 'ctid', 'format(''scope %L, key %L'', t.scope, t.key)',
         't.holder <> 0 AND t.completed_at IS NOT NULL', 't.expires_at', NULL, 't.holder <> 0')
    ) AS k(what, from_table, id, name, due, at, number, looked)
    WHERE k.what = retain_kind.what
$$;

-- One window of rows along their index. inbox_janitor remembers the last row of the window, and the next window begins behind it.
-- So rows that must stay, are locked, or are refused do not block later ones, and a window costs the same however many there are.
-- After the last row that is due the walk begins again.
CREATE OR REPLACE FUNCTION inbox.walk_rows(what text, before timestamptz, max_rows int, OUT ended text[], OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    kind record;
    walk jsonb := coalesce((SELECT j.walks -> what FROM inbox.inbox_janitor j), '{}');
    looked bigint;
    first_id text;
    last_at timestamptz;
    last_number bigint;
BEGIN
    SELECT k.* INTO kind FROM inbox.retain_kind(what) k;
    EXECUTE format(
        'SELECT array_agg(w.id) FILTER (WHERE w.due), count(*), (array_agg(w.id))[1], max(w.at),'
        '       (array_agg(w.number ORDER BY w.at, w.number))[count(*)]'
        ' FROM (SELECT t.%1$I::text AS id, %2$s AS due, %3$s AS at, %4$s AS number FROM %5$s t'
        '       WHERE %6$s AND %7$s ORDER BY %8$s LIMIT $4) w',
        kind.id, kind.due, coalesce(kind.at, 'NULL::timestamptz'), coalesce(kind.number, '0'), kind.from_table, kind.looked,
        CASE WHEN kind.at IS NULL THEN kind.number || ' > $3' WHEN kind.number IS NULL THEN kind.at || ' >= $2'
             ELSE format('(%s, %s) > ($2, $3)', kind.at, kind.number) END,
        concat_ws(', ', kind.at, kind.number))
    INTO ended, looked, first_id, last_at, last_number
    USING before, coalesce((walk ->> 'at')::timestamptz, '-infinity'), coalesce((walk ->> 'number')::bigint, -9223372036854775808), max_rows;
    -- Without a time in the order, the first window without a row that is due is the end: the later rows are younger.
    more := looked = max_rows AND (kind.at IS NOT NULL OR ended IS NOT NULL);
    -- Without a number, the next window begins with the rows that have the time of the last one. If they are still there, and fill
    -- it, the walk goes past that time.
    IF kind.number IS NULL AND last_at = (walk ->> 'at')::timestamptz AND first_id = walk ->> 'first' THEN
        last_at := last_at + interval '1 microsecond';
    END IF;
    UPDATE inbox.inbox_janitor j
    SET walks = CASE WHEN more THEN j.walks || jsonb_build_object(what, jsonb_build_object(
                         'at', last_at, 'number', last_number, 'first', first_id))
                     ELSE j.walks - what END;
END $$;

-- Deletes these rows, or drops payloads, as far as the rows are still due and not locked. isolate: one that PostgreSQL refuses (a
-- foreign key or a trigger of the user) is found by halves, and left out. refused: those rows; why: the error of the first one.
-- An error that concerns no row, such as a lock or a lack of resources, ends the batch.
CREATE OR REPLACE FUNCTION inbox.retain_rows(what text, ids text[], before timestamptz, isolate boolean,
    OUT affected bigint, OUT refused text[], OUT why text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind record;
    half int := cardinality(ids) / 2;
    rest record;
BEGIN
    affected := 0;
    refused := '{}';
    IF coalesce(cardinality(ids), 0) = 0 THEN
        RETURN;
    END IF;
    SELECT k.* INTO kind FROM inbox.retain_kind(what) k;
    BEGIN
        EXECUTE format('%1$s WHERE t.%2$I = ANY (ARRAY(SELECT t.%2$I FROM %3$s t WHERE t.%2$I = ANY ($2::%4$s[]) AND %5$s'
                       ' FOR UPDATE SKIP LOCKED))',
            CASE what
                WHEN 'payload' THEN 'UPDATE inbox.inbox_messages t SET payload = NULL, headers = ''[]'','
                                    ' payload_digest = coalesce(t.payload_digest, substr(sha256(t.payload), 1, 16))'
                WHEN 'requests_leased' THEN 'UPDATE inbox.requests t SET holder = 0'
                ELSE format('DELETE FROM %s t', kind.from_table) END,
            kind.id, kind.from_table, CASE kind.id WHEN 'ctid' THEN 'tid' ELSE 'bigint' END, kind.due)
        USING before, ids;
        GET DIAGNOSTICS affected = ROW_COUNT;
        RETURN;
    EXCEPTION WHEN OTHERS THEN
        IF NOT isolate OR left(SQLSTATE, 2) IN ('08', '25', '40', '53', '55', '57', '58') THEN
            RAISE;
        END IF;
        why := SQLERRM || ' [' || SQLSTATE || ']';
    END;
    IF half = 0 THEN
        refused := ids;
        RETURN;
    END IF;
    SELECT r.* INTO affected, refused, why FROM inbox.retain_rows(what, ids[:half], before, isolate) r;
    SELECT r.* INTO rest FROM inbox.retain_rows(what, ids[half + 1:], before, isolate) r;
    affected := affected + rest.affected;
    refused := refused || rest.refused;
    why := coalesce(why, rest.why);
END $$;

-- One batch of one kind: 'payload', 'processed' (messages), 'dead', 'dead_produced' (dead messages that were
-- produced to the dead topic), 'rejects', 'conflicts', 'audit', 'instances' (rescued ones), 'outbox' (published events),
-- 'outbox_dead' (dead ones), 'requests' (expired ones), 'requests_leased' (completed ones, which are not changed otherwise). Sidecars
-- can delete messages only with this function, and it cannot delete unfinished ones.
-- elected: false = another instance does the work. more: the next batch may follow at once.
-- isolate: rows that PostgreSQL refuses are left out. refused: how many; refused_row, refused_why: the first one. Without it, as
-- earlier sidecars call it, the batch fails.
-- A walk must follow its index and stop. A bitmap scan would read all remaining rows, and a generic plan might do so,
-- too.
CREATE OR REPLACE FUNCTION inbox.retain(instance int, what text, age_ms bigint, max_rows int, isolate boolean DEFAULT false,
    OUT elected boolean, OUT affected bigint, OUT more boolean, OUT refused bigint, OUT refused_row text, OUT refused_why text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
SET enable_bitmapscan = off SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    age interval := age_ms * interval '1 millisecond';
    before timestamptz := now() - age;
    kind record;
    ended text[];
    done record;
BEGIN
    SELECT k.* INTO kind FROM inbox.retain_kind(what) k;
    IF coalesce(age_ms, -1) < 0 THEN
        PERFORM inbox.refuse('retain', format('age_ms is %s; it must be 0 or more', coalesce(age_ms::text, 'NULL')));
    ELSIF kind.id IS NULL THEN
        PERFORM inbox.refuse('retain', format('what is %s; it is no kind of rows', coalesce(quote_literal(what), 'NULL')));
    END IF;
    max_rows := inbox.check_max_rows('retain', coalesce(max_rows, 0));
    affected := 0;
    more := false;
    refused := 0;
    elected := inbox.elect_janitor(instance);
    IF NOT elected THEN
        RETURN;
    END IF;
    CASE what
    WHEN 'payload', 'processed' THEN
        SELECT w.ended, w.more INTO ended, more FROM inbox.walk_both(what, age, max_rows) w;
    WHEN 'outbox' THEN
        SELECT w.ended, w.more INTO ended, more FROM inbox.walk_published(age, max_rows) w;
    ELSE
        SELECT w.ended, w.more INTO ended, more FROM inbox.walk_rows(what, before, max_rows) w;
    END CASE;
    -- A constraint of the user that is deferred would fail at COMMIT, and nobody would know the row.
    SET CONSTRAINTS ALL IMMEDIATE;
    SELECT r.* INTO done FROM inbox.retain_rows(what, ended, before, coalesce(isolate, false)) r;
    affected := done.affected;
    refused := cardinality(done.refused);
    IF refused > 0 THEN
        EXECUTE format('SELECT %s FROM %s t WHERE t.%I = $1::%s', kind.name, kind.from_table, kind.id,
                       CASE kind.id WHEN 'ctid' THEN 'tid' ELSE 'bigint' END)
        INTO refused_row USING done.refused[1];
        refused_why := done.why;
    END IF;
END $$;
