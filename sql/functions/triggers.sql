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

-- A row whose processed_at or dead_at is cleared with plain SQL gets the same state as with inbox.replay(). AFTER and
-- not BEFORE: a BEFORE trigger would lock every row that is completed.
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

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inbox.inbox_messages'::regclass AND tgname = 'replay') THEN
        CREATE TRIGGER replay
        AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages
        FOR EACH ROW
        WHEN (NEW.processed_at IS NULL AND NEW.dead_at IS NULL AND NEW.available_at IS NULL
              AND (OLD.processed_at IS NOT NULL OR OLD.dead_at IS NOT NULL))
        EXECUTE FUNCTION inbox.replay_row();
    END IF;
END $$;

-- The history of a dead row that is resolved with plain SQL (processed_at set, dead_at cleared) names the
-- user. Nothing else fires it: when a row is completed, neither column was set before.
CREATE OR REPLACE FUNCTION inbox.call_done() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.attempts IS DISTINCT FROM OLD.attempts THEN
        RETURN NULL; -- inbox.resolve() has recorded it
    END IF;
    UPDATE inbox.inbox_messages m
    SET attempts = inbox.remember(m.attempts, jsonb_strip_nulls(jsonb_build_object(
        'at', now(), 'called_done_by', session_user, 'was', 'dead', 'ended_at', OLD.dead_at,
        'error', left(OLD.error, 1000), 'code', OLD.error_code)))
    WHERE m.seq = NEW.seq;
    RETURN NULL;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inbox.inbox_messages'::regclass AND tgname = 'call_done') THEN
        CREATE TRIGGER call_done
        AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages
        FOR EACH ROW
        WHEN (OLD.dead_at IS NOT NULL AND NEW.dead_at IS NULL AND NEW.processed_at IS NOT NULL)
        EXECUTE FUNCTION inbox.call_done();
    END IF;
END $$;
