-- Ends the database sessions of an instance that is to be declared dead: otherwise the open transaction of a stopped
-- client would not end (rule R5).
-- Caller: store/leases/instance.c, before fencing. Index: none (pg_stat_activity).
-- $1 to $5 as in dead_instances.
SELECT count(pg_terminate_backend(a.pid))
FROM pg_stat_activity a
JOIN inbox.inbox_instances i ON a.application_name = 'inboxd/' || i.id
-- include: dead_instances
  AND a.usename = current_user AND a.datname = current_database()
