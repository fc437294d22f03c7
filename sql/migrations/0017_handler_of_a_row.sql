-- Which handler processed a message, or gave it up. Written with the verdict: no index mentions it.

ALTER TABLE inbox.inbox_messages ADD COLUMN handler text;
COMMENT ON COLUMN inbox.inbox_messages.handler IS
    'The handler that processed the message, or gave the verdict after which it was dead; NULL = neither, or nobody did';

-- As in 0004. New columns of a view come last.
CREATE OR REPLACE VIEW inbox.messages AS
SELECT m.seq, m.source, m.event_id, m.event_type, m.topic, m.kafka_partition, m.kafka_offset, m.kafka_timestamp, m.key,
       m.headers, m.payload, m.payload_digest, m.received_at, m.available_at, m.claimed_by, m.claim_number,
       m.delivery_count, m.retry_count, m.crash_count, m.replay_count, m.rescue_count, m.suspect, m.error, m.error_code,
       m.result, m.processed_at, m.dead_at, m.attempts,
       CASE WHEN m.processed_at IS NOT NULL THEN 'processed'
            WHEN m.dead_at IS NOT NULL THEN 'dead'
            WHEN m.available_at = 'infinity' THEN 'parked'
            WHEN m.available_at IS NOT NULL AND m.retry_count > 0 THEN 'retrying'
            WHEN m.available_at IS NOT NULL THEN 'waiting'
            ELSE 'claimed' END AS status,
       inbox.try_text(m.payload) AS payload_text,
       inbox.try_json(m.payload) AS payload_json,
       m.dead_topic_at,
       m.handler
FROM inbox.inbox_messages m;

-- As in 0009, and the handler of the run before is cleared.
CREATE OR REPLACE FUNCTION inbox.replay_seqs(seqs bigint[], status text, reason text) RETURNS bigint
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
        retry_count = 0, crash_count = 0, rescue_count = 0, replay_count = least(m.replay_count, 2147483646) + 1,
        error = NULL, error_code = NULL, result = NULL, handler = NULL,
        attempts = inbox.remember(m.attempts, inbox.replay_entry(
            m.processed_at, m.dead_at, m.retry_count, m.error, m.error_code, m.result, replay_seqs.reason))
    FROM free WHERE m.seq = free.seq;
    GET DIAGNOSTICS affected = ROW_COUNT;
    IF affected > 0 THEN
        PERFORM pg_notify('inboxd_replay', '');
    END IF;
    RETURN affected;
END $$;

-- As in 0009, and the handler of the run before is cleared.
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
        retry_count = 0, crash_count = 0, rescue_count = 0, replay_count = least(m.replay_count, 2147483646) + 1,
        error = NULL, error_code = NULL, result = NULL, handler = NULL,
        attempts = inbox.remember(m.attempts, inbox.replay_entry(
            OLD.processed_at, OLD.dead_at, OLD.retry_count, OLD.error, OLD.error_code, OLD.result, NULL))
    WHERE m.seq = NEW.seq;
    PERFORM pg_notify('inboxd_replay', '');
    RETURN NULL;
END $$;
