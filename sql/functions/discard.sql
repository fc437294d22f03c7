-- Discard gives waiting or dead messages up with a reason. A discarded message is dead, with the code DISCARDED and without
-- a claim. Counts and lists of dead messages leave it out. So does `replay` with filters, unless the filter names its code
-- or the status `discarded`.

-- The history of each row names the user who discarded it.
CREATE OR REPLACE FUNCTION inbox.discard_seqs(seqs bigint[], reason text, counted jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.seq = ANY (seqs)
          AND (m.available_at IS NOT NULL
               OR m.dead_at IS NOT NULL AND (m.claimed_by IS NOT NULL OR m.error_code IS DISTINCT FROM 'DISCARDED'))
          AND inbox.is_counted(m.xmin, counted)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.inbox_messages m
    SET dead_at = coalesce(m.dead_at, now()), available_at = NULL, claimed_by = NULL, suspect = false,
        error = coalesce(discard_seqs.reason, 'discarded'), error_code = 'DISCARDED',
        attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
            'at', now(), 'discarded_by', session_user, 'reason', discard_seqs.reason,
            'error', left(m.error, 1000), 'code', m.error_code)))
    WHERE m.seq = ANY (ARRAY(SELECT f.seq FROM free f));
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN affected;
END $$;

-- Discards one message for a consumer, or for all (NULL). False: it does not exist, or neither waits nor is dead.
CREATE OR REPLACE FUNCTION inbox.discard(source text, event_id text, reason text DEFAULT NULL, consumer text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    IF source IS NULL OR event_id IS NULL THEN
        PERFORM inbox.refuse('discard', 'source and event_id must be given');
    END IF;
    affected := inbox.discard_seqs(ARRAY(
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.event_id = discard.event_id AND m.source = discard.source
          AND (discard.consumer IS NULL OR m.consumer = discard.consumer)), reason);
    RETURN inbox.audit_message('discard', source, event_id, consumer, reason, affected, 'waits or is dead');
END $$;

-- Discards a page. last_seq: as in replay_page().
CREATE OR REPLACE FUNCTION inbox.discard_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                   OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_page', filter, ARRAY['waiting', 'retrying', 'parked', 'dead']);
    page record;
BEGIN
    SELECT * INTO page FROM inbox.look_page(given, after_seq, inbox.check_max_rows('discard_page', max_rows));
    affected := inbox.discard_seqs(page.seqs, reason, given -> 'counted');
    last_seq := coalesce(page.last_seq, page.seqs[cardinality(page.seqs)]);
    IF page.seqs <> '{}' THEN
        PERFORM inbox.audit('discard', given - 'counted', reason, affected);
    END IF;
END $$;

-- Discards all matching messages in one transaction; dry_run only counts. after_seq continues where an earlier
-- call ended.
CREATE OR REPLACE FUNCTION inbox.discard_where(
    status text DEFAULT 'waiting', topic text DEFAULT NULL, event_type text DEFAULT NULL,
    received_from timestamptz DEFAULT NULL, received_to timestamptz DEFAULT NULL, error_like text DEFAULT NULL,
    max_rows int DEFAULT NULL, reason text DEFAULT NULL, dry_run boolean DEFAULT false, key text DEFAULT NULL,
    error_code text DEFAULT NULL, after_seq bigint DEFAULT NULL, consumer text DEFAULT NULL,
    type text DEFAULT NULL, code text DEFAULT NULL, error text DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, max int DEFAULT NULL, after bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('discard_where', inbox.named_filter('discard_where', jsonb_build_object(
        'status', status, 'topic', topic, 'event_type', event_type, 'key', key, 'received_from', received_from,
        'received_to', received_to, 'error_like', error_like, 'error_code', error_code, 'consumer', consumer,
        'max_rows', max_rows, 'after_seq', after_seq,
        'type', type, 'code', code, 'error', error, 'since', since, 'until', until, 'max', max, 'after', after)),
        ARRAY['waiting', 'retrying', 'parked', 'dead']);
    most int := inbox.check_max_rows('discard_where', coalesce(max, max_rows));
    page record;
    affected bigint;
BEGIN
    IF dry_run IS NULL THEN
        PERFORM inbox.refuse('discard_where', 'dry_run is NULL; it must be true or false');
    END IF;
    SELECT * INTO page FROM inbox.look_page(given, coalesce(after, after_seq), most);
    affected := cardinality(page.seqs);
    IF page.last_seq IS NOT NULL AND affected IS DISTINCT FROM most THEN
        PERFORM inbox.warn_of_rest('discard_where', page.looked, page.last_seq);
    END IF;
    IF NOT dry_run THEN
        affected := inbox.discard_seqs(page.seqs, reason);
        PERFORM inbox.audit('discard', given, reason, affected);
        PERFORM inbox.note_left_out('discard_where', cardinality(page.seqs) - affected);
    END IF;
    RETURN affected;
END $$;
