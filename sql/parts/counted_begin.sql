-- The JSON that identifies the rows of a count, for inbox.is_counted(): that of the pages before ($1), or what is known when the count begins
-- ($1 is NULL). Only the count uses "end": it has no row of a transaction that began later.
-- Included by the statements that count what a command changes, page by page. Index: none.
WITH begun AS MATERIALIZED (
    SELECT coalesce($1::jsonb, jsonb_build_object('below', pg_snapshot_xmin(s)::text::bigint,
                                                  'end', pg_snapshot_xmax(s)::text::bigint, 'also', '{}'::jsonb, 'last', 0)) AS counted
    FROM pg_current_snapshot() s
)
