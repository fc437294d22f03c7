-- Gives back rows that a dead instance had claimed from the table; the second time as suspects (rule R14, ADR 0011). Rows locked
-- by their handler's transaction are left alone (rule R8).
-- Caller: store/instance.c, page by page until nothing is left. Index: inbox_messages_claimed.
-- $1 dead id, $2 most rows at once, $3 the last seq of the page before (0 = start).
-- Back: rows freed, rows locked, last seq of the page, whether there may be more.
WITH stale AS MATERIALIZED (
    SELECT seq FROM inbox.inbox_messages
    WHERE claimed_by = $1::int AND delivery_count > 1 AND seq > $3::bigint
      AND processed_at IS NULL AND dead_at IS NULL AND available_at IS NULL
    ORDER BY seq
    LIMIT $2::int
), free AS MATERIALIZED (
    SELECT m.seq FROM inbox.inbox_messages m
    WHERE m.seq IN (SELECT seq FROM stale) AND m.claimed_by = $1::int AND m.delivery_count > 1
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
), freed AS (
    UPDATE inbox.inbox_messages m SET available_at = now(), claimed_by = NULL,
           suspect = m.suspect OR m.rescue_count > 0, rescue_count = m.rescue_count + 1
    FROM free WHERE m.seq = free.seq
    RETURNING 1
)
SELECT (SELECT count(*) FROM freed), (SELECT count(*) FROM stale) - (SELECT count(*) FROM free),
       (SELECT coalesce(max(seq), $3::bigint) FROM stale), (SELECT count(*) FROM stale) = $2::int
