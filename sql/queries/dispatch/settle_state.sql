-- The state of rows that a settle did not match: completed under our claim, or lost. Those that inbox.complete() has
-- completed get the name of their handler, unless they are locked.
-- Caller: store/claims/settle.c. Index: inbox_messages_seq_key; a HOT update.
-- $1 own id, $2 seqs, $3 delivery counts, $4 handlers (NULL or less of them: no name). Back: seq,
-- delivery count, the outcome recorded under that claim (0 processed, 1 dead, NULL none: its lock was in the way), and
-- whether the row had no handler: then inbox.complete() has completed it with the claim of an earlier sidecar, and no settle has.
-- CASE: as in settle_done.
WITH state AS MATERIALIZED (
    SELECT m.seq, m.delivery_count,
           CASE WHEN m.processed_at IS NOT NULL THEN 0 WHEN m.dead_at IS NOT NULL THEN 1 END AS outcome,
           m.handler IS NULL AND v.handler IS NOT NULL AS unsettled, v.handler,
           m.handler <> v.handler OR (m.handler IS NULL AND v.handler IS NOT NULL) AS nameless
    FROM inbox.inbox_messages m
    JOIN unnest($2::bigint[], $3::int[], $4::text[]) AS v(seq, delivery_count, handler) ON m.seq = v.seq
    WHERE CASE WHEN m.claimed_by = $1::int AND m.delivery_count = v.delivery_count THEN true END
), free AS MATERIALIZED (
    SELECT m.seq FROM inbox.inbox_messages m
    WHERE m.seq = ANY (ARRAY(SELECT s.seq FROM state s WHERE s.outcome = 0 AND s.nameless ORDER BY s.seq))
      AND CASE WHEN m.claimed_by = $1::int AND m.processed_at IS NOT NULL THEN true END
    FOR NO KEY UPDATE SKIP LOCKED
), named AS (
    UPDATE inbox.inbox_messages m SET handler = s.handler
    FROM state s
    WHERE m.seq = ANY (ARRAY(SELECT f.seq FROM free f)) AND m.seq = s.seq
)
SELECT seq, delivery_count, outcome, unsettled FROM state
