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

-- One window of messages after a seq. Those processed before `before` are deleted, or (payloads) lose payload and
-- headers and keep their digest. A tombstone has no payload and is not changed. Locked rows are skipped.
-- The walk continues to the last row that was received early enough, so that hardly any earlier row is unfinished. A
-- row with a future time (from a wrong clock) does not stop the walk.
CREATE OR REPLACE FUNCTION inbox.walk_messages(payloads boolean, before timestamptz, early_enough timestamptz, after_seq bigint,
    last_seq bigint, max_rows int, OUT affected bigint, OUT reached bigint, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended bigint[];
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
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.seq = ANY (ended) AND m.processed_at <= before
        FOR UPDATE SKIP LOCKED
    ), dropped AS (
        UPDATE inbox.inbox_messages m
        SET payload = NULL, headers = '[]',
            payload_digest = coalesce(m.payload_digest, substr(sha256(m.payload), 1, 16))
        FROM free WHERE payloads AND m.seq = free.seq
        RETURNING 1
    ), gone AS (
        DELETE FROM inbox.inbox_messages m USING free WHERE NOT payloads AND m.seq = free.seq
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM dropped) + (SELECT count(*) FROM gone) INTO affected;
END $$;

-- One step of one of the two walks over messages. Rows that were skipped (not finished then, replayed, locked) are
-- visited again from the lowest seq, a tenth of the age after the last time, at most a day after it.
CREATE OR REPLACE FUNCTION inbox.retain_messages(what text, age interval, max_rows int, OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := now() - age;
    tenth interval := age / 10;
    walk jsonb := coalesce((SELECT j.walks -> what FROM inbox.inbox_janitor j), '{}');
    front bigint := coalesce((walk ->> 'front')::bigint, 0);
    again bigint := coalesce((walk ->> 'again')::bigint, 0);
    rested_at timestamptz := coalesce((walk ->> 'rested_at')::timestamptz, now());
    changed bigint;
BEGIN
    SELECT w.affected, w.reached, w.more INTO affected, front, more
    FROM inbox.walk_messages(what = 'payload', before, before - least(tenth, interval '1 hour'), front,
                             9223372036854775807, max_rows) w;
    IF NOT more AND (again > 0 OR rested_at <= now() - least(tenth, interval '1 day')) THEN
        SELECT w.affected, w.reached, w.more INTO changed, again, more
        FROM inbox.walk_messages(what = 'payload', before, 'infinity', again, front, max_rows) w;
        affected := affected + changed;
        IF NOT more THEN
            again := 0;
            rested_at := now();
        END IF;
    END IF;
    UPDATE inbox.inbox_janitor j
    SET walks = j.walks || jsonb_build_object(what, jsonb_build_object(
        'front', front, 'again', again, 'rested_at', rested_at));
END $$;

-- One window of dead messages in the order they died. Those that died before `before` are deleted; with `produced`
-- those that were not produced to the dead topic stay. inbox_janitor remembers the last row of the window, and the
-- next window begins after it. After the last old row the walk begins again, and finds rows that were produced or
-- unlocked meanwhile.
CREATE OR REPLACE FUNCTION inbox.retain_dead(what text, produced boolean, before timestamptz, max_rows int,
    OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    walk jsonb := coalesce((SELECT j.walks -> what FROM inbox.inbox_janitor j), '{}');
    last_at timestamptz := coalesce((walk ->> 'dead_at')::timestamptz, '-infinity');
    last_seq bigint := coalesce((walk ->> 'seq')::bigint, 0);
    ended bigint[];
    looked bigint[];
BEGIN
    SELECT array_agg(w.seq) FILTER (WHERE w.heard OR NOT produced), array_agg(w.seq ORDER BY w.dead_at, w.seq),
           max(w.dead_at)
    INTO ended, looked, last_at
    FROM (SELECT m.seq, m.dead_at, m.claimed_by IS NULL OR m.dead_topic_at IS NOT DISTINCT FROM m.dead_at AS heard
          FROM inbox.inbox_messages m
          WHERE m.dead_at <= before AND (m.dead_at, m.seq) > (last_at, last_seq)
          ORDER BY m.dead_at, m.seq LIMIT max_rows) w;
    more := coalesce(cardinality(looked), 0) = max_rows;
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.seq = ANY (ended) AND m.dead_at <= before
          AND (NOT produced OR m.claimed_by IS NULL OR m.dead_topic_at IS NOT DISTINCT FROM m.dead_at)
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM inbox.inbox_messages m USING free WHERE m.seq = free.seq;
    GET DIAGNOSTICS affected = ROW_COUNT;
    UPDATE inbox.inbox_janitor j
    SET walks = CASE WHEN more THEN j.walks || jsonb_build_object(what, jsonb_build_object(
                         'dead_at', last_at, 'seq', looked[max_rows]))
                     ELSE j.walks - what END;
END $$;

-- One window of published events in the order of seq. The walk goes on to the last event that was created early enough.
-- At its end it begins again if it began long ago, a tenth of the age and at most a day: so it finds events that were
-- published late.
CREATE OR REPLACE FUNCTION inbox.retain_published(age interval, max_rows int, OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := now() - age;
    walk jsonb := coalesce((SELECT j.walks -> 'outbox' FROM inbox.inbox_janitor j), '{}');
    front bigint := coalesce((walk ->> 'front')::bigint, 0);
    begun_at timestamptz := coalesce((walk ->> 'begun_at')::timestamptz, now());
    ended bigint[];
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
    WITH free AS MATERIALIZED (
        SELECT o.seq FROM inbox.outbox o WHERE o.seq = ANY (ended) AND o.published_at <= before FOR UPDATE SKIP LOCKED
    )
    DELETE FROM inbox.outbox o USING free WHERE o.seq = free.seq;
    GET DIAGNOSTICS affected = ROW_COUNT;
    UPDATE inbox.inbox_janitor j
    SET walks = j.walks || jsonb_build_object('outbox', jsonb_build_object('front', front, 'begun_at', begun_at));
END $$;

-- One batch of requests. Expired ones are deleted; a lease never ends after expires_at. Those that were completed with a lease
-- leave the index requests_leased, which their completion did not touch.
CREATE OR REPLACE FUNCTION inbox.retain_requests(before timestamptz, max_rows int, OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    released bigint;
BEGIN
    DELETE FROM inbox.requests r
    WHERE r.ctid = ANY (ARRAY(
        SELECT e.ctid FROM inbox.requests e WHERE e.expires_at <= before
        ORDER BY e.expires_at LIMIT max_rows
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS affected = ROW_COUNT;
    UPDATE inbox.requests r SET holder = 0
    WHERE r.ctid = ANY (ARRAY(
        SELECT c.ctid FROM inbox.requests c WHERE c.holder <> 0 AND c.completed_at IS NOT NULL
        ORDER BY c.expires_at LIMIT max_rows
        FOR NO KEY UPDATE SKIP LOCKED));
    GET DIAGNOSTICS released = ROW_COUNT;
    more := greatest(affected, released) = max_rows;
END $$;

-- Deletes the oldest rows of a table: those with the lowest seq.
CREATE OR REPLACE FUNCTION inbox.retain_low(from_table regclass, stamp text, before timestamptz, max_rows int) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    affected bigint;
BEGIN
    EXECUTE format(
        'WITH low AS MATERIALIZED (SELECT t.seq, t.%2$I AS stamp FROM %1$s t ORDER BY t.seq LIMIT $2),'
        ' old AS MATERIALIZED (SELECT t.seq FROM %1$s t'
        '  WHERE t.seq IN (SELECT l.seq FROM low l WHERE l.stamp <= $1) FOR UPDATE SKIP LOCKED)'
        ' DELETE FROM %1$s t USING old WHERE t.seq = old.seq', from_table, stamp) USING before, max_rows;
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN affected;
END $$;

-- One batch of one kind: 'payload', 'processed' (messages), 'dead', 'dead_produced' (dead messages that were
-- produced to the dead topic), 'rejects', 'conflicts', 'audit', 'instances' (rescued ones), 'outbox' (published events),
-- 'outbox_dead' (dead ones), 'requests' (expired ones). Sidecars can delete messages only with this function, and it cannot delete unfinished ones.
-- elected: false = another instance does the work. more: the next batch may follow at once.
-- A walk must follow its index and stop. A bitmap scan would read all remaining rows, and a generic plan might do so,
-- too.
CREATE OR REPLACE FUNCTION inbox.retain(instance int, what text, age_ms bigint, max_rows int,
    OUT elected boolean, OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
SET enable_bitmapscan = off SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    age interval := age_ms * interval '1 millisecond';
    before timestamptz := now() - age;
BEGIN
    IF coalesce(age_ms, -1) < 0 THEN
        PERFORM inbox.refuse('retain', format('age_ms is %s; it must be 0 or more', coalesce(age_ms::text, 'NULL')));
    END IF;
    max_rows := inbox.check_max_rows('retain', coalesce(max_rows, 0));
    affected := 0;
    more := false;
    elected := inbox.elect_janitor(instance);
    IF NOT elected THEN
        RETURN;
    END IF;
    CASE coalesce(what, '')
    WHEN 'payload', 'processed' THEN
        SELECT r.affected, r.more INTO affected, more FROM inbox.retain_messages(what, age, max_rows) r;
        RETURN;
    WHEN 'dead', 'dead_produced' THEN
        SELECT r.affected, r.more INTO affected, more
        FROM inbox.retain_dead(what, what = 'dead_produced', before, max_rows) r;
        RETURN;
    WHEN 'rejects' THEN
        affected := inbox.retain_low('inbox.inbox_rejects', 'received_at', before, max_rows);
    WHEN 'conflicts' THEN
        affected := inbox.retain_low('inbox.inbox_conflicts', 'received_at', before, max_rows);
    WHEN 'audit' THEN
        affected := inbox.retain_low('inbox.inbox_audit', 'at', before, max_rows);
    WHEN 'instances' THEN
        WITH old AS MATERIALIZED (
            SELECT i.id FROM inbox.inbox_instances i WHERE i.rescued_at <= before
            ORDER BY i.id LIMIT max_rows
            FOR UPDATE SKIP LOCKED
        )
        DELETE FROM inbox.inbox_instances i USING old WHERE i.id = old.id;
        GET DIAGNOSTICS affected = ROW_COUNT;
    WHEN 'outbox' THEN
        SELECT r.affected, r.more INTO affected, more FROM inbox.retain_published(age, max_rows) r;
        RETURN;
    WHEN 'outbox_dead' THEN
        WITH old AS MATERIALIZED (
            SELECT o.seq FROM inbox.outbox o WHERE o.dead_at <= before
            ORDER BY o.dead_at, o.seq LIMIT max_rows
            FOR UPDATE SKIP LOCKED
        )
        DELETE FROM inbox.outbox o USING old WHERE o.seq = old.seq;
        GET DIAGNOSTICS affected = ROW_COUNT;
    WHEN 'requests' THEN
        SELECT r.affected, r.more INTO affected, more FROM inbox.retain_requests(before, max_rows) r;
        RETURN;
    ELSE
        PERFORM inbox.refuse('retain', format('what is %s; it is no kind of rows', coalesce(quote_literal(what), 'NULL')));
    END CASE;
    more := affected = max_rows;
END $$;
