-- Cancels a long statement of a migration that was asked to stop: its server process would continue without its
-- client.
-- Caller: store/schema/migrate_watch.c. Index: none (statistics). $1 the comment its text begins with.
SELECT pg_cancel_backend(a.pid)
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.usename = session_user AND a.state = 'active'
  AND starts_with(a.query, $1::text)
