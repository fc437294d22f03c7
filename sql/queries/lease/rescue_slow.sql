-- Gives back rows that a dead instance had claimed from the table: one window of claim numbers. A row that was
-- rescued before becomes a suspect (rule R14, ADR 0011). Rows that their handler's transaction has locked are
-- skipped (rule R8); the caller tries them again.
-- Caller: store/leases/rescue.c, window by window. Index: inbox_messages_claimed.
-- $1 dead id, $2 from number, $3 width of the window.
-- Back: rows freed, rows locked, next number, whether the end is reached.
WITH span AS MATERIALIZED (
    SELECT $2::bigint AS first, least($2::bigint + $3::bigint, coalesce(
           (SELECT max(claim_number) FROM inbox.inbox_messages
            WHERE claimed_by = $1::int AND delivery_count > 1), 0) + 1) AS behind
), stale AS MATERIALIZED (
    SELECT m.seq
    FROM span
    JOIN inbox.inbox_messages m ON m.claim_number >= span.first AND m.claim_number < span.behind
    WHERE m.claimed_by = $1::int AND m.delivery_count > 1
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
), free AS MATERIALIZED (
    SELECT m.seq FROM inbox.inbox_messages m
    WHERE m.seq IN (SELECT seq FROM stale) AND m.claimed_by = $1::int AND m.delivery_count > 1
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
    -- include: rescue_end
