-- Sequences that are behind their rows. After a switch-over by logical replication, or a restore of the rows alone, the
-- rows are there and the sequences begin anew: an INSERT takes a number that a row has, and fails. A sidecar compares
-- them when it starts.

-- Which are: the table, its sequence, the number the sequence gave last (0: none yet), and the highest of the rows.
-- The rows are looked at before the sequences, so what is stored meanwhile makes none look behind.
CREATE FUNCTION inbox.sequences_behind(OUT table_name text, OUT sequence text, OUT last bigint, OUT highest bigint)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH highest AS MATERIALIZED (
        SELECT t.* FROM (VALUES
            (1, 'inbox.inbox_messages', (SELECT max(seq) FROM inbox.inbox_messages)),
            (2, 'inbox.inbox_conflicts', (SELECT max(seq) FROM inbox.inbox_conflicts)),
            (3, 'inbox.inbox_rejects', (SELECT max(seq) FROM inbox.inbox_rejects)),
            (4, 'inbox.inbox_audit', (SELECT max(seq) FROM inbox.inbox_audit))) AS t(n, table_name, seq)
    )
    SELECT s.table_name, s.sequence, s.last, s.seq
    FROM (SELECT h.*, pg_get_serial_sequence(h.table_name, 'seq') AS sequence,
                 coalesce(pg_sequence_last_value(pg_get_serial_sequence(h.table_name, 'seq')::regclass), 0) AS last
          FROM highest h OFFSET 0) s
    WHERE s.seq > s.last
    ORDER BY s.n
$$;
REVOKE ALL ON FUNCTION inbox.sequences_behind() FROM PUBLIC;

-- Sets those, and says which as sequences_behind() does. Whoever inserts takes its number behind the lock on the table,
-- so none is taken between the second look and setval(): no sequence is ever set back. The tables are locked in
-- the order in which a batch writes them.
CREATE FUNCTION inbox.advance_sequences(OUT table_name text, OUT sequence text, OUT last bigint, OUT highest bigint)
RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := ARRAY(SELECT b.table_name FROM inbox.sequences_behind() b);
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', name);
        SELECT b.table_name, b.sequence, b.last, b.highest INTO table_name, sequence, last, highest
        FROM inbox.sequences_behind() b WHERE b.table_name = name;
        IF FOUND THEN
            PERFORM setval(sequence::regclass, highest);
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION inbox.advance_sequences() FROM PUBLIC;

-- As in 0007, but only a record that is among the conflicts already is not kept again: a clash of numbers is an error.
CREATE OR REPLACE FUNCTION inbox.replay_reject(reject_seq bigint, source text, event_id text, event_type text,
                                    reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    reject inbox.inbox_rejects;
    digest bytea;
    fate text := 'stored';
BEGIN
    IF coalesce(source, '') = '' OR coalesce(event_id, '') = '' THEN
        PERFORM inbox.refuse('replay_reject', 'source and event_id must be given');
    END IF;
    DELETE FROM inbox.inbox_rejects r WHERE r.seq = reject_seq RETURNING r.* INTO reject;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    digest := substr(sha256(reject.payload), 1, 16);
    INSERT INTO inbox.inbox_messages
        (source, event_id, event_type, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers,
         payload, payload_digest, available_at, attempts)
    VALUES (replay_reject.source, replay_reject.event_id, replay_reject.event_type, reject.topic,
            reject.kafka_partition, reject.kafka_offset, reject.kafka_timestamp, reject.key, reject.headers,
            reject.payload, digest, now(), inbox.remember(NULL, jsonb_strip_nulls(jsonb_build_object(
                'at', now(), 'replayed_by', session_user, 'was', 'rejected', 'reason', replay_reject.reason))))
    ON CONFLICT ON CONSTRAINT inbox_messages_pkey DO NOTHING;
    IF FOUND THEN
        PERFORM pg_notify('inboxd_replay', '');
    ELSE
        INSERT INTO inbox.inbox_conflicts
            (source, event_id, topic, kafka_partition, kafka_offset, kafka_timestamp, key, headers, payload,
             payload_digest)
        SELECT m.source, m.event_id, reject.topic, reject.kafka_partition, reject.kafka_offset,
               reject.kafka_timestamp, reject.key, reject.headers, reject.payload, digest
        FROM inbox.inbox_messages m
        WHERE m.event_id = replay_reject.event_id AND m.source = replay_reject.source
          AND m.payload_digest IS DISTINCT FROM digest
        ON CONFLICT (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz)))
            DO NOTHING;
        fate := CASE WHEN FOUND THEN 'conflict' ELSE 'duplicate' END;
    END IF;
    PERFORM inbox.audit('replay', jsonb_build_object('reject', reject_seq, 'source', source,
        'event_id', event_id, 'fate', fate), reason, 1);
    RETURN fate;
END $$;
