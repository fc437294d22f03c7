-- Gives back rows that were born claimed by a dead instance: one window of seq. A row that was rescued before
-- becomes a suspect, without counting a crash: it may be the reason why sidecars end (rule R14, ADR 0011). A row
-- whose handler's transaction is still open is skipped (rule R8); the caller tries it again.
-- Caller: store/leases/rescue.c, window by window. Index: inbox_messages_seq_key.
-- $1 dead id, $2 from seq, $3 width of the window.
-- Back: rows freed, rows locked, next seq, whether the end is reached.
WITH span AS MATERIALIZED (
    SELECT $2::bigint AS first, least($2::bigint + $3::bigint,
           coalesce(pg_sequence_last_value(pg_get_serial_sequence('inbox.inbox_messages', 'seq')::regclass), 0) + 1) AS behind
), stale AS MATERIALIZED (
    SELECT m.seq
    FROM span
    JOIN inbox.inbox_messages m ON m.seq >= span.first AND m.seq < span.behind
    WHERE m.claimed_by = $1::int
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
), free AS MATERIALIZED (
    SELECT m.seq FROM inbox.inbox_messages m
    WHERE m.seq IN (SELECT seq FROM stale) AND m.claimed_by = $1::int
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
    -- include: rescue_end
