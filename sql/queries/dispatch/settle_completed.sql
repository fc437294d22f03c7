-- Whether inbox.complete() has completed rows (rule R8). Usually it has written the name of their handler, as
-- inbox.call_handler() does, and the rows are only read. With the claim of an earlier sidecar it does not know the name: then
-- the rows get it here, a HOT update while the page has room.
-- Caller: store/claims/settle.c. Index: inbox_messages_seq_key; no index changes.
-- Named: with any statistics its plan is this index.
-- $1 own id, $2 seqs, $3 the delivery count all of them have, $4 the handler that had all of them. Back: how many are
-- completed under our claim. Only the update waits for a lock. A row that is completed and then replayed at this moment
-- counts; the update checks the claim again and leaves it. CASE: as in settle_done.
WITH found AS MATERIALIZED (
    SELECT m.seq, m.handler IS DISTINCT FROM $4::text AS nameless
    FROM inbox.inbox_messages m
    WHERE m.seq = ANY ($2::bigint[])
      AND CASE WHEN m.claimed_by = $1::int AND m.delivery_count = $3::int AND m.processed_at IS NOT NULL THEN true END
), named AS (
    UPDATE inbox.inbox_messages m SET handler = $4::text
    WHERE m.seq = ANY (ARRAY(SELECT f.seq FROM found f WHERE f.nameless))
      AND CASE WHEN m.claimed_by = $1::int AND m.delivery_count = $3::int AND m.processed_at IS NOT NULL THEN true END
)
SELECT count(*) FROM found
