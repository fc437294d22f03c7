-- The progress of a long statement of a migration: phase, percent (NULL = unknown), and the sessions it waits for.
-- Caller: store/schema/migrate_watch.c, every few seconds from another connection. Index: none (statistics).
-- $1 the comment its text begins with.
SELECT coalesce(p.phase, CASE a.wait_event_type WHEN 'Lock' THEN 'waiting for a lock' ELSE 'running' END),
       CASE WHEN p.blocks_total > 0 THEN 100 * p.blocks_done / p.blocks_total
            WHEN p.tuples_total > 0 THEN 100 * p.tuples_done / p.tuples_total END,
       (SELECT string_agg(concat_ws(' ', b.pid, nullif(o.application_name, ''), o.state,
                                    extract(epoch FROM clock_timestamp() - o.xact_start)::bigint || 's'), ', ')
        FROM unnest(pg_blocking_pids(a.pid)) AS b(pid)
        LEFT JOIN pg_stat_activity o ON o.pid = b.pid)
FROM pg_stat_activity a
LEFT JOIN pg_stat_progress_create_index p ON p.pid = a.pid
WHERE a.datname = current_database() AND a.usename = session_user AND a.state = 'active'
  AND starts_with(a.query, $1::text)
