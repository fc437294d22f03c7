-- Deletion of processed messages by an operator.

-- Deletes processed messages, the oldest first. No index has the time of processing, because it would slow every
-- completion. So this reads the table from its lowest seq up to the first messages that were received too late.
CREATE OR REPLACE FUNCTION inbox.purge(older_than interval, max_rows int DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    before timestamptz := now() - older_than;
    room bigint := coalesce(inbox.check_max_rows('purge', max_rows), 9223372036854775807);
    at bigint := 0;
    earliest timestamptz;
    deleted bigint;
    total bigint := 0;
BEGIN
    IF older_than IS NULL OR older_than < interval '0' THEN
        PERFORM inbox.refuse('purge', format('older_than is %s; it must be an age, 0 or more',
            coalesce(quote_literal(older_than), 'NULL')));
    END IF;
    LOOP
        WITH walked AS MATERIALIZED (
            SELECT m.seq, m.received_at, m.processed_at FROM inbox.inbox_messages m
            WHERE m.seq > at ORDER BY m.seq LIMIT 5000
        ), old AS MATERIALIZED (
            SELECT m.seq FROM inbox.inbox_messages m
            WHERE m.seq = ANY (ARRAY(SELECT w.seq FROM walked w WHERE w.processed_at <= before))
              AND m.processed_at <= before
            -- + 0: in the order of the index, a plan for few rows could read all of it
            ORDER BY m.seq + 0 LIMIT least(room - total, 5000)
            FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM inbox.inbox_messages m
            WHERE m.seq = ANY (ARRAY(SELECT o.seq FROM old o)) RETURNING 1
        )
        SELECT max(w.seq), min(w.received_at), (SELECT count(*) FROM gone)
        INTO at, earliest, deleted FROM walked w;
        total := total + deleted;
        EXIT WHEN at IS NULL OR earliest > before OR total >= room;
    END LOOP;
    PERFORM inbox.audit('purge', jsonb_build_object('older_than', older_than::text), NULL, total);
    RETURN total;
END $$;
