-- Gives back rows of a batch whose COMMIT got no answer (rule R3). Runs after locking the watermark rows, so the
-- lost transaction has ended. Every row that was born claimed after $2 belongs to it.
-- Caller: store/batches/watermarks.c, before the first batch on a new connection. Index: inbox_messages_seq_key.
-- $1 own id, $2 highest seq that arrived in memory.
WITH freed AS (
    UPDATE inbox.inbox_messages SET available_at = now(), claimed_by = NULL
    WHERE seq > $2::bigint AND claimed_by = $1::int AND delivery_count = 1
      AND processed_at IS NULL AND dead_at IS NULL AND available_at IS NULL
    RETURNING 1
)
SELECT count(*) FROM freed
