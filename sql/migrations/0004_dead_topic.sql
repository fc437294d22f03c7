-- The dead topic: what died in a delivery is also produced to a topic (retry.dead_topic), from this table. Which death
-- of a message was produced is in its row, so a message that is replayed and dies again is produced again.

ALTER TABLE inbox.inbox_messages ADD COLUMN dead_topic_at timestamptz;
COMMENT ON COLUMN inbox.inbox_messages.dead_topic_at IS
    'The dead_at for which it was produced to the dead topic; another value, or NULL: not for this death';

-- What died in a delivery and was not produced. Who gives a message up by hand leaves claimed_by NULL: that is no
-- failure anybody has to hear of. NULLS FIRST although there are none: no other index has this order, so no other one
-- is taken for it.
CREATE INDEX inbox_messages_dead_topic ON inbox.inbox_messages (dead_at NULLS FIRST, seq)
    WHERE dead_at IS NOT NULL AND claimed_by IS NOT NULL AND dead_topic_at IS DISTINCT FROM dead_at;

CREATE TABLE inbox.inbox_dead_topic (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    instance int,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

COMMENT ON TABLE inbox.inbox_dead_topic IS
    'One row: the instance that produces to the dead topic; NULL = nobody just now. Made when there is something to produce.';

-- New columns of a view come last.
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
       m.dead_topic_at
FROM inbox.inbox_messages m;

-- As in 0003, and 'dead_produced': dead messages of that age, but for those the dead topic has not heard of. Looked at
-- are max_rows of them from the one that died first: while those have to stay, what died later stays, too.
CREATE OR REPLACE FUNCTION inbox.retain(instance int, what text, age_ms bigint, max_rows int,
    OUT elected boolean, OUT affected bigint, OUT more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
SET enable_bitmapscan = off SET plan_cache_mode = force_custom_plan AS $$
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
        WITH old AS MATERIALIZED (
            SELECT m.seq, m.claimed_by IS NULL OR m.dead_topic_at IS NOT DISTINCT FROM m.dead_at AS heard
            FROM inbox.inbox_messages m WHERE m.dead_at <= before
            ORDER BY m.dead_at, m.seq LIMIT max_rows
            FOR UPDATE SKIP LOCKED
        )
        DELETE FROM inbox.inbox_messages m USING old WHERE m.seq = old.seq AND (what = 'dead' OR old.heard);
        GET DIAGNOSTICS affected = ROW_COUNT;
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
