-- Triggers that make plain SQL safe. A trigger is created if it is missing, and is not replaced: CREATE OR REPLACE
-- TRIGGER would block writers at each migration. To change one, drop it in a numbered migration.

-- The rows that a dead instance held are found by its low_seq and low_claim, so its row must stay until they are
-- rescued. Deleting the row earlier fences the instance instead.
CREATE OR REPLACE FUNCTION inbox.keep_unrescued() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE inbox.inbox_instances SET fenced_at = coalesce(fenced_at, clock_timestamp()) WHERE id = OLD.id;
    UPDATE inbox.inbox_offsets SET owner = NULL, epoch = epoch + 1, updated_at = now() WHERE owner = OLD.id;
    RAISE NOTICE 'instance % is fenced, not deleted: a sidecar gives back what it held first', OLD.id
        USING HINT = 'Delete it once rescued_at is set.';
    RETURN NULL;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inbox.inbox_instances'::regclass AND tgname = 'keep_unrescued') THEN
        CREATE TRIGGER keep_unrescued
        BEFORE DELETE ON inbox.inbox_instances
        FOR EACH ROW WHEN (OLD.rescued_at IS NULL)
        EXECUTE FUNCTION inbox.keep_unrescued();
    END IF;
END $$;

-- A row that had ended and was changed with plain SQL. processed_at or dead_at cleared: it gets the same state as with
-- inbox.replay(). processed_at set and dead_at cleared: its history names the user, unless the statement has recorded that, as
-- inbox.resolve() does. AFTER and not BEFORE: a BEFORE trigger would lock every row that is completed. One trigger and not
-- two, because each statement compiles the condition of each trigger. No completion fires it: the row had not ended.
CREATE OR REPLACE FUNCTION inbox.ended_row_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    recorded boolean := NEW.attempts IS DISTINCT FROM OLD.attempts AND coalesce(NEW.attempts -> -1 ? 'called_done_by', false);
BEGIN
    IF NEW.dead_at IS NOT NULL OR NEW.processed_at IS NOT NULL AND (OLD.dead_at IS NULL OR recorded) THEN
        RETURN NULL;
    ELSIF NEW.processed_at IS NOT NULL THEN
        UPDATE inbox.inbox_messages m
        SET attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
            'at', now(), 'called_done_by', session_user, 'was', 'dead', 'ended_at', OLD.dead_at,
            'error', left(OLD.error, 1000), 'code', OLD.error_code)))
        WHERE m.seq = NEW.seq;
        RETURN NULL;
    ELSIF NEW.payload IS NULL AND NEW.payload_digest IS NOT NULL THEN
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

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inbox.inbox_messages'::regclass AND tgname = 'ended_row_changed') THEN
        CREATE TRIGGER ended_row_changed
        AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages
        FOR EACH ROW
        WHEN (NEW.available_at IS NULL AND (OLD.processed_at IS NOT NULL OR OLD.dead_at IS NOT NULL))
        EXECUTE FUNCTION inbox.ended_row_changed();
    END IF;
END $$;
