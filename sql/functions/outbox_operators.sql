-- What operators do with events: look, replay, discard.

-- Checks a filter of events: that of messages (check_filter()), in which the times are those of created_at, event_id, and
-- topic_template: outbox.topic of the relay, from which an event without a topic gets one. A filter by topic needs it.
CREATE OR REPLACE FUNCTION inbox.check_outbox_filter(caller text, filter jsonb, allowed text[]) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_filter(caller, filter - '{event_id,topic_template}'::text[], allowed);
BEGIN
    IF filter ->> 'event_id' = '' THEN
        PERFORM inbox.refuse(caller, 'event_id is empty; leave it out for any');
    ELSIF filter ? 'died_from' OR filter ? 'died_to' THEN
        PERFORM inbox.refuse(caller, 'died_from and died_to are for messages; events have received_from and received_to');
    ELSIF filter ? 'consumer' THEN
        PERFORM inbox.refuse(caller, 'consumer is for messages; an event has none');
    END IF;
    RETURN given || jsonb_strip_nulls(jsonb_build_object('event_id', filter ->> 'event_id',
        'topic_template', CASE WHEN given ? 'topic' THEN coalesce(filter ->> 'topic_template', '{aggregate}') END));
END $$;

-- One page: at most max_rows events that fit, after after_seq, in the order of seq. Reads along the primary key, because
-- the table has little else than what waits and what is dead. 'failed' is dead or retrying, 'unpublished'
-- waiting or dead; a discarded event is neither, unless 'discarded', its code or its id is asked for. With max_rows a page also ends
-- after 100,000 events that did not match.
-- looked: the number of rows that were read. last_seq: no row after it was read; NULL = there is none.
CREATE OR REPLACE FUNCTION inbox.outbox_page(filter jsonb, after_seq bigint, max_rows int,
    OUT seqs bigint[], OUT looked bigint, OUT last_seq bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
DECLARE
    state text := filter ->> 'status';
    wanted_topic text := filter ->> 'topic';
    template text := filter ->> 'topic_template';
    kind text := filter ->> 'event_type';
    prefix text := CASE WHEN right(kind, 1) = '*' THEN left(kind, -1) END;
    wanted_key bytea := convert_to(filter ->> 'key', 'UTF8');
    wanted_id text := filter ->> 'event_id';
    wanted_trace text := filter ->> 'trace';
    like_text text := filter ->> 'error_like';
    code text := filter ->> 'error_code';
    created_from timestamptz := filter ->> 'received_from';
    created_to timestamptz := filter ->> 'received_to';
    misfits bigint := CASE WHEN max_rows IS NOT NULL THEN 100000 END;
    counted jsonb := filter -> 'counted';
    last bigint := coalesce((counted ->> 'last')::bigint, 9223372036854775807);
    fit boolean;
BEGIN
    seqs := '{}';
    looked := 0;
    FOR last_seq, fit IN
        SELECT o.seq,
               CASE state
                   WHEN 'any' THEN true
                   WHEN 'published' THEN o.published_at IS NOT NULL
                   WHEN 'dead' THEN o.dead_at IS NOT NULL AND (code = 'DISCARDED' OR o.error_code IS DISTINCT FROM 'DISCARDED')
                   WHEN 'discarded' THEN o.dead_at IS NOT NULL AND o.error_code = 'DISCARDED'
                   WHEN 'parked' THEN o.available_at = 'infinity'
                   WHEN 'retrying' THEN o.available_at < 'infinity'
                   WHEN 'failed' THEN o.dead_at IS NOT NULL
                        AND (code = 'DISCARDED' OR wanted_id IS NOT NULL OR o.error_code IS DISTINCT FROM 'DISCARDED')
                        OR o.available_at < 'infinity'
                   WHEN 'unpublished' THEN o.published_at IS NULL
                        AND (o.dead_at IS NULL OR o.error_code IS DISTINCT FROM 'DISCARDED')
                   ELSE o.published_at IS NULL AND o.dead_at IS NULL END
               AND (wanted_topic IS NULL OR wanted_topic = coalesce(o.topic,
                   replace(replace(template, '{aggregate}', coalesce(o.aggregate, '/')), '{type}', o.event_type)))
               AND CASE WHEN kind IS NULL THEN true WHEN prefix IS NOT NULL THEN starts_with(o.event_type, prefix)
                        ELSE o.event_type = kind END
               AND (wanted_key IS NULL OR o.key = wanted_key)
               AND (wanted_id IS NULL OR o.event_id = wanted_id)
               AND (wanted_trace IS NULL OR o.headers::text LIKE '%' || wanted_trace || '%')
               AND (like_text IS NULL OR o.error LIKE like_text)
               AND (code IS NULL OR coalesce(o.error_code, '') = code)
               AND (created_from IS NULL OR o.created_at >= created_from)
               AND (created_to IS NULL OR o.created_at < created_to)
               AND inbox.is_counted(o.xmin, counted)
        FROM inbox.outbox o
        WHERE o.seq > coalesce(after_seq, 0) AND o.seq <= last
        ORDER BY o.seq
        LIMIT misfits + max_rows
    LOOP
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
    last_seq := NULL;
END $$;

-- Publishes events again. One that is dead or waits for its next attempt is released in place: it keeps its number. One
-- that was published stays, and a copy with the same id goes out: receivers with an inbox drop it, others get it again.
CREATE OR REPLACE FUNCTION inbox.outbox_replay_seqs(seqs bigint[], counted jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    released bigint;
    copied bigint;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT o.seq FROM inbox.outbox o
        WHERE o.seq = ANY (seqs) AND (o.dead_at IS NOT NULL OR o.available_at < 'infinity')
          AND inbox.is_counted(o.xmin, counted)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.outbox o
    SET available_at = now(), dead_at = NULL, retry_count = 0, error = NULL, error_code = NULL
    WHERE o.seq = ANY (ARRAY(SELECT f.seq FROM free f));
    GET DIAGNOSTICS released = ROW_COUNT;
    INSERT INTO inbox.outbox
        (event_id, source, topic, aggregate, key, event_type, subject, content_type, format, headers, payload, caused_by,
         created_at, request_scope, request_key)
    SELECT o.event_id, o.source, o.topic, o.aggregate, o.key, o.event_type, o.subject, o.content_type, o.format,
           o.headers, o.payload, o.caused_by, o.created_at, o.request_scope, o.request_key
    FROM (SELECT p.* FROM inbox.outbox p
          WHERE p.seq = ANY (seqs) AND p.published_at IS NOT NULL AND inbox.is_counted(p.xmin, counted) OFFSET 0) o
    ORDER BY o.seq;
    GET DIAGNOSTICS copied = ROW_COUNT;
    RETURN released + copied;
END $$;

-- Discards events that are not published: they are dead with the code DISCARDED, and in no count and no list of dead ones. One that is
-- being sent at this moment may still go out.
CREATE OR REPLACE FUNCTION inbox.outbox_discard_seqs(seqs bigint[], reason text, counted jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT o.seq FROM inbox.outbox o
        WHERE o.seq = ANY (seqs) AND o.published_at IS NULL AND (o.dead_at IS NULL OR o.error_code IS DISTINCT FROM 'DISCARDED')
          AND inbox.is_counted(o.xmin, counted)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.outbox o
    SET dead_at = coalesce(o.dead_at, now()), available_at = NULL, error = coalesce(outbox_discard_seqs.reason, 'discarded'),
        error_code = 'DISCARDED'
    WHERE o.seq = ANY (ARRAY(SELECT f.seq FROM free f));
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN affected;
END $$;

-- Replays (what = 'outbox_replay') or discards ('outbox_discard') one page. The public functions below differ only in
-- this name and in the states that they accept.
CREATE OR REPLACE FUNCTION inbox.outbox_change_page(what text, given jsonb, after_seq bigint, max_rows int, reason text,
    dry_run boolean, OUT affected bigint, OUT looked bigint, OUT last_seq bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    seqs bigint[];
BEGIN
    SELECT p.seqs, p.looked, p.last_seq INTO seqs, looked, last_seq FROM inbox.outbox_page(given, after_seq, max_rows) p;
    IF dry_run THEN
        affected := cardinality(seqs);
        RETURN;
    END IF;
    affected := CASE what WHEN 'outbox_replay' THEN inbox.outbox_replay_seqs(seqs, given -> 'counted')
                          ELSE inbox.outbox_discard_seqs(seqs, reason, given -> 'counted') END;
    IF seqs <> '{}' THEN
        PERFORM inbox.audit(what, given - 'counted', reason, affected);
    END IF;
END $$;

-- Publishes a page of events again, for callers that publish many in short transactions. last_seq: as in outbox_page().
CREATE OR REPLACE FUNCTION inbox.outbox_replay_page(filter jsonb, after_seq bigint, max_rows int,
    reason text DEFAULT NULL, OUT affected bigint, OUT last_seq bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.affected, c.last_seq
    FROM inbox.outbox_change_page('outbox_replay',
             inbox.check_outbox_filter('outbox_replay_page', filter, ARRAY['dead', 'retrying', 'failed', 'published', 'discarded']), after_seq,
             inbox.check_max_rows('outbox_replay_page', max_rows), reason, false) c
$$;

-- Discards a page of events. last_seq: as in outbox_page().
CREATE OR REPLACE FUNCTION inbox.outbox_discard_page(filter jsonb, after_seq bigint, max_rows int,
    reason text DEFAULT NULL, OUT affected bigint, OUT last_seq bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.affected, c.last_seq
    FROM inbox.outbox_change_page('outbox_discard',
             inbox.check_outbox_filter('outbox_discard_page', filter, ARRAY['waiting', 'retrying', 'parked', 'dead', 'unpublished']), after_seq,
             inbox.check_max_rows('outbox_discard_page', max_rows), reason, false) c
$$;

-- All matching events in one transaction; with max_rows the first ones. Warns if it did not read all events.
CREATE OR REPLACE FUNCTION inbox.outbox_change_where(caller text, what text, filter jsonb, allowed text[],
    after_seq bigint, max_rows int, reason text, dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := inbox.check_outbox_filter(caller, inbox.named_filter(caller, filter), allowed);
    page record;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse(caller, 'dry_run is NULL; it must be true or false');
    END IF;
    SELECT * INTO page FROM inbox.outbox_change_page(what, given, after_seq, inbox.check_max_rows(caller, max_rows),
                                                     reason, dry_run);
    IF page.last_seq IS NOT NULL AND page.affected IS DISTINCT FROM max_rows THEN
        PERFORM inbox.warn_of_rest(caller, page.looked, page.last_seq);
    END IF;
    RETURN page.affected;
END $$;

-- Publishes matching events again; dry_run only counts. after_seq continues where an earlier call ended.
CREATE OR REPLACE FUNCTION inbox.outbox_replay_where(
    status text DEFAULT 'dead', topic text DEFAULT NULL, event_type text DEFAULT NULL, error_code text DEFAULT NULL,
    error_like text DEFAULT NULL, key text DEFAULT NULL, event_id text DEFAULT NULL,
    created_from timestamptz DEFAULT NULL, created_to timestamptz DEFAULT NULL, after_seq bigint DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false,
    type text DEFAULT NULL, code text DEFAULT NULL, error text DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, max int DEFAULT NULL, after bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT inbox.outbox_change_where('outbox_replay_where', 'outbox_replay', jsonb_build_object(
        'status', status, 'topic', topic, 'event_type', event_type, 'error_code', error_code, 'error_like', error_like,
        'key', key, 'event_id', event_id, 'received_from', created_from, 'received_to', created_to,
        'max_rows', max_rows, 'after_seq', after_seq,
        'type', type, 'code', code, 'error', error, 'since', since, 'until', until, 'max', max, 'after', after),
        ARRAY['dead', 'retrying', 'failed', 'published', 'discarded'], coalesce(after, after_seq), coalesce(max, max_rows), reason, dry_run)
$$;

-- Sets matching events to dead that are not published yet; dry_run only counts.
CREATE OR REPLACE FUNCTION inbox.outbox_discard_where(
    status text DEFAULT 'waiting', topic text DEFAULT NULL, event_type text DEFAULT NULL, error_code text DEFAULT NULL,
    error_like text DEFAULT NULL, key text DEFAULT NULL, event_id text DEFAULT NULL,
    created_from timestamptz DEFAULT NULL, created_to timestamptz DEFAULT NULL, after_seq bigint DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false,
    type text DEFAULT NULL, code text DEFAULT NULL, error text DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, max int DEFAULT NULL, after bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT inbox.outbox_change_where('outbox_discard_where', 'outbox_discard', jsonb_build_object(
        'status', status, 'topic', topic, 'event_type', event_type, 'error_code', error_code, 'error_like', error_like,
        'key', key, 'event_id', event_id, 'received_from', created_from, 'received_to', created_to,
        'max_rows', max_rows, 'after_seq', after_seq,
        'type', type, 'code', code, 'error', error, 'since', since, 'until', until, 'max', max, 'after', after),
        ARRAY['waiting', 'retrying', 'parked', 'dead', 'unpublished'], coalesce(after, after_seq), coalesce(max, max_rows), reason, dry_run)
$$;

-- Where the relay goes on reading: behind the tip, and in the holes. An earlier inboxd stores the floor alone. Then tip and holes
-- do not belong to the floor, and do not count.
CREATE OR REPLACE FUNCTION inbox.relay_position(floor bigint, stored_tip bigint, first bigint[], last bigint[],
    OUT tip bigint, OUT hole_first bigint[], OUT hole_last bigint[])
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN k.known THEN stored_tip ELSE coalesce(floor, 0) END, CASE WHEN k.known THEN first ELSE '{}' END,
           CASE WHEN k.known THEN last ELSE '{}' END
    FROM (SELECT coalesce(floor = coalesce(first[1] - 1, stored_tip) AND stored_tip >= floor, false) AS known) k
$$;

-- The events of the outbox that are not published: those that wait (new and deferred ones), of them those that are retrying
-- and parked, dead ones, and the time of the oldest one that waits. The counts end at a cap for new ones in holes, new ones behind the
-- tip, deferred ones and dead ones. A transaction that is open for long may keep the entries of millions of published events
-- in the index; the position of the relay lies behind them.
CREATE OR REPLACE FUNCTION inbox.outbox_counts(cap bigint, OUT waiting bigint, OUT retrying bigint, OUT parked bigint,
    OUT dead bigint, OUT oldest timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_sort = off SET jit = off AS $$
    SELECT f.count + t.count, t.retrying, t.parked,
           (SELECT count(*) FROM (SELECT FROM inbox.outbox d
                                 WHERE d.dead_at IS NOT NULL AND d.error_code IS DISTINCT FROM 'DISCARDED' LIMIT cap) d),
           least(f.oldest, t.oldest)
    FROM (VALUES (1)) AS one(row)
    LEFT JOIN inbox.outbox_relay r ON true
    CROSS JOIN LATERAL inbox.relay_position(r.floor, r.tip, r.hole_first, r.hole_last) p
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE l.fresh), min(l.created_at) FILTER (WHERE l.fresh AND isfinite(l.created_at)) AS oldest
        FROM ((SELECT e.created_at, true AS fresh
               FROM unnest(p.hole_first, p.hole_last) AS h(first, last)
               CROSS JOIN LATERAL (
                   SELECT o.created_at FROM inbox.outbox o
                   WHERE o.seq >= h.first AND o.seq <= h.last
                     AND num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0
                   ORDER BY o.seq LIMIT cap) e
               LIMIT cap)
              UNION ALL
              (SELECT o.created_at, num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0
               FROM inbox.outbox o WHERE o.seq > p.tip ORDER BY o.seq LIMIT cap)) l) f
    CROSS JOIN (
        SELECT count(*), count(*) FILTER (WHERE l.available_at < 'infinity') AS retrying,
               count(*) FILTER (WHERE l.available_at = 'infinity') AS parked,
               min(l.created_at) FILTER (WHERE isfinite(l.created_at)) AS oldest
        FROM (SELECT o.available_at, o.created_at FROM inbox.outbox o WHERE o.available_at > '-infinity'
              ORDER BY o.available_at, o.seq LIMIT cap) l) t
$$;

-- The state of the outbox as one jsonb object. Counts stop at 10,000, so that the cost does not grow with the table;
-- 10000 means "or more". A time that is not finite has no age. waiting includes retrying and parked events.
CREATE OR REPLACE FUNCTION inbox.outbox_status() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'waiting', least(c.waiting, 10000),
        'retrying', c.retrying,
        'parked', c.parked,
        'dead', c.dead,
        'oldest_seconds', greatest(extract(epoch FROM clock_timestamp() - c.oldest)::bigint,
                                   CASE WHEN c.oldest IS NOT NULL THEN 0 END),
        'last_seq', coalesce(pg_sequence_last_value('inbox.outbox_seq'::regclass), 0),
        'floor', coalesce(r.floor, 0),
        'relay', (SELECT i.name FROM inbox.inbox_instances i
                  WHERE i.id = r.instance AND i.fenced_at IS NULL AND i.stopped_at IS NULL),
        'relay_seen_at', CASE WHEN r.instance IS NOT NULL THEN r.seen_at END)
    FROM inbox.outbox_counts(10000) c
    LEFT JOIN inbox.outbox_relay r ON true
$$;
