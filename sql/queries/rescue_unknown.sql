-- Gives back what an own statement may have claimed without our hearing of it: the batch whose
-- COMMIT was not answered (rule R3). Runs behind the lock on the watermark rows, so the lost
-- transaction is over. Everything born claimed after $2 is such a row.
-- Caller: store/inbox.c, before the first batch on a new connection. Index: inbox_messages_seq_key.
-- $1 own id, $2 highest seq that arrived in memory.
WITH freed AS (
    UPDATE inbox.inbox_messages SET available_at = now(), claimed_by = NULL
    WHERE seq > $2::bigint AND claimed_by = $1::int AND delivery_count = 1
      AND processed_at IS NULL AND dead_at IS NULL AND available_at IS NULL
    RETURNING 1
)
SELECT count(*) FROM freed
