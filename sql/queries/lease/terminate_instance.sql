-- Ends the database sessions of an instance that is to be declared dead: otherwise the open transaction of a stopped
-- client would not end (rule R5).
-- Caller: store/leases/instance.c, before fencing. Index: none (pg_stat_activity).
-- $1 own id, $2 host_id, $3 lease in ms, $4 whether ended leases may be fenced, $5 earlier id (0 = none).
SELECT count(pg_terminate_backend(a.pid))
FROM pg_stat_activity a
JOIN inbox.inbox_instances i ON a.application_name = 'inboxd/' || i.id
WHERE i.id <> $1::int AND i.fenced_at IS NULL
  AND a.usename = current_user AND a.datname = current_database()
  AND (i.host_id = $2::text OR i.id = $5::int
       OR ($4::boolean AND i.heartbeat_at < clock_timestamp() - $3::bigint * interval '1 millisecond'))
