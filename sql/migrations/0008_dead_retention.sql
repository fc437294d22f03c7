-- Retention of dead messages walks: rows that have to stay hold up none behind them.

-- One window of dead messages in the order they died: those that died before are deleted; with `produced` those the
-- dead topic has not heard of stay. inbox_janitor remembers the last row looked at, so that the next window begins
-- behind it; behind the last old row it begins anew, which finds what was produced or unlocked meanwhile.
CREATE FUNCTION inbox.retain_dead(what text, produced boolean, before timestamptz, max_rows int,
    OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    walk jsonb := coalesce((SELECT j.walks -> what FROM inbox.inbox_janitor j), '{}');
    place_at timestamptz := coalesce((walk ->> 'dead_at')::timestamptz, '-infinity');
    place_seq bigint := coalesce((walk ->> 'seq')::bigint, 0);
    ended bigint[];
    looked bigint[];
BEGIN
    SELECT array_agg(w.seq) FILTER (WHERE w.heard OR NOT produced), array_agg(w.seq ORDER BY w.dead_at, w.seq),
           max(w.dead_at)
    INTO ended, looked, place_at
    FROM (SELECT m.seq, m.dead_at, m.claimed_by IS NULL OR m.dead_topic_at IS NOT DISTINCT FROM m.dead_at AS heard
          FROM inbox.inbox_messages m
          WHERE m.dead_at <= before AND (m.dead_at, m.seq) > (place_at, place_seq)
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
                         'dead_at', place_at, 'seq', looked[max_rows]))
                     ELSE j.walks - what END;
END $$;
REVOKE ALL ON FUNCTION inbox.retain_dead(text, boolean, timestamptz, int) FROM PUBLIC;
-- Only inbox.retain() calls it, as its owner, who need not be who migrates.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION inbox.retain_dead OWNER TO %s', (
        SELECT p.proowner::regrole FROM pg_proc p WHERE p.oid = 'inbox.retain(int, text, bigint, int)'::regprocedure));
END $$;

COMMENT ON COLUMN inbox.inbox_janitor.walks IS
    'For each walk over the messages: front = first walked to here; again = what was skipped then is looked at again up to here; rested_at = since when that is done. Of a walk over dead ones: the last row looked at';

-- As in 0004, but for dead messages.
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
    ELSE
        PERFORM inbox.refuse('retain', format('what is %s; it is no kind of rows', coalesce(quote_literal(what), 'NULL')));
    END CASE;
    more := affected = max_rows;
END $$;
