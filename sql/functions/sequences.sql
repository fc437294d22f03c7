-- Sequences behind the rows of their tables. After a switch-over by logical replication, or a restore of the rows
-- alone, the rows exist and the sequences start at 1: an INSERT gets a number that a row already has, and fails. A
-- sidecar compares them when it starts.

-- Lists those sequences: the table, its sequence, the last number of the sequence (0 = none yet), and the highest
-- number of the rows. The rows are read before the sequences, so rows that are stored meanwhile do not matter.
CREATE OR REPLACE FUNCTION inbox.sequences_behind(OUT table_name text, OUT sequence text, OUT last bigint, OUT highest bigint)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH highest AS MATERIALIZED (
        SELECT t.* FROM (VALUES
            (1, 'inbox.inbox_messages', (SELECT max(seq) FROM inbox.inbox_messages)),
            (2, 'inbox.inbox_conflicts', (SELECT max(seq) FROM inbox.inbox_conflicts)),
            (3, 'inbox.inbox_rejects', (SELECT max(seq) FROM inbox.inbox_rejects)),
            (4, 'inbox.inbox_audit', (SELECT max(seq) FROM inbox.inbox_audit)),
            (5, 'inbox.outbox', (SELECT max(seq) FROM inbox.outbox))) AS t(n, table_name, seq)
    )
    SELECT s.table_name, s.sequence, s.last, s.seq
    FROM (SELECT h.*, pg_get_serial_sequence(h.table_name, 'seq') AS sequence,
                 coalesce(pg_sequence_last_value(pg_get_serial_sequence(h.table_name, 'seq')::regclass), 0) AS last
          FROM highest h OFFSET 0) s
    WHERE s.seq > s.last
    ORDER BY s.n
$$;

-- Sets those sequences, and returns what sequences_behind() returned for them. An INSERT gets its number after it has
-- the lock on the table, so none gets one between the second check and setval(): no sequence is ever set back. The
-- tables are locked in the order in which a batch writes them.
CREATE OR REPLACE FUNCTION inbox.advance_sequences(OUT table_name text, OUT sequence text, OUT last bigint, OUT highest bigint)
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
