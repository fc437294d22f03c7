-- Decisions of operators: retry_now() ends the wait for a retry or a snooze; resolve() makes a dead message processed.

-- Makes rows due that wait for their time, and keeps everything else of them: the attempts, the error, the place in their key.
CREATE OR REPLACE FUNCTION inbox.retry_seqs(seqs bigint[], reason text, counted jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.seq = ANY (seqs) AND m.available_at > now() AND m.available_at < 'infinity'
          AND inbox.is_counted(m.xmin, counted)
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.inbox_messages m
    SET available_at = now(),
        attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
            'at', now(), 'retried_by', session_user, 'reason', retry_seqs.reason, 'due_at', m.available_at)))
    WHERE m.seq = ANY (ARRAY(SELECT f.seq FROM free f));
    GET DIAGNOSTICS affected = ROW_COUNT;
    IF affected > 0 THEN
        PERFORM pg_notify('inboxd_replay', '');
    END IF;
    RETURN affected;
END $$;

-- Makes the waiting retry of one message due now, for a consumer or for each one (NULL). False: it waits for no retry.
CREATE OR REPLACE FUNCTION inbox.retry_now(source text, event_id text, reason text DEFAULT NULL, consumer text DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    IF source IS NULL OR event_id IS NULL THEN
        PERFORM inbox.refuse('retry_now', 'source and event_id must be given');
    END IF;
    affected := inbox.retry_seqs(ARRAY(
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.event_id = retry_now.event_id AND m.source = retry_now.source
          AND (retry_now.consumer IS NULL OR m.consumer = retry_now.consumer)), reason);
    RETURN inbox.audit_message('retry', source, event_id, consumer, reason, affected, 'waits for a retry or a snooze that is not due');
END $$;

-- Makes the waiting retries of a page due now. last_seq: as in replay_page(). Messages that are due, or parked, are in no page.
CREATE OR REPLACE FUNCTION inbox.retry_page(filter jsonb, after_seq bigint, max_rows int, reason text DEFAULT NULL,
                                 OUT affected bigint, OUT last_seq bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given jsonb := inbox.check_filter('retry_page', filter, ARRAY['retrying', 'waiting']);
    page record;
BEGIN
    SELECT * INTO page FROM inbox.look_page(given || '{"due": "later"}', after_seq,
        inbox.check_max_rows('retry_page', max_rows));
    affected := inbox.retry_seqs(page.seqs, reason, given -> 'counted');
    last_seq := coalesce(page.last_seq, page.seqs[cardinality(page.seqs)]);
    IF page.seqs <> '{}' THEN
        PERFORM inbox.audit('retry', given - 'counted', reason, affected);
    END IF;
END $$;

-- Makes a dead message processed: its error is the reason, and its history keeps the earlier error. For a consumer, or for
-- each one (NULL) for which it is dead. False: it is dead for none.
--
-- The trigger adds no second entry.
CREATE OR REPLACE FUNCTION inbox.resolve(source text, event_id text, reason text, consumer text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    affected bigint;
BEGIN
    IF source IS NULL OR event_id IS NULL THEN
        PERFORM inbox.refuse('resolve', 'source and event_id must be given');
    ELSIF coalesce(reason, '') = '' THEN
        PERFORM inbox.refuse('resolve', 'give the reason: it stays with the message');
    END IF;
    WITH free AS MATERIALIZED (
        SELECT m.seq FROM inbox.inbox_messages m
        WHERE m.event_id = resolve.event_id AND m.source = resolve.source
          AND (resolve.consumer IS NULL OR m.consumer = resolve.consumer) AND m.dead_at IS NOT NULL
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE inbox.inbox_messages m
    SET processed_at = now(), dead_at = NULL, error = resolve.reason, error_code = 'RESOLVED',
        attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
            'at', now(), 'called_done_by', session_user, 'reason', resolve.reason, 'was', 'dead', 'ended_at', m.dead_at,
            'error', left(m.error, 1000), 'code', m.error_code)))
    WHERE m.seq = ANY (ARRAY(SELECT f.seq FROM free f));
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN inbox.audit_message('resolve', source, event_id, consumer, reason, affected, 'is dead');
END $$;
