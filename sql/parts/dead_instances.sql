-- The dead instances i: earlier ones with our host_id (we hold the lock of their socket), the earlier one of this process,
-- and those whose lease has ended. These are included only while our own heartbeats are on time (rule R4). $4 is the time
-- of our latest heartbeat, on PostgreSQL's clock. If PostgreSQL stalled since then, it may not have executed the heartbeats of
-- the others yet, so a statement that runs late fences none of them.
-- Included by terminate_instance and fence_instances.
-- $1 own id, $2 host_id, $3 lease in ms, $4 time of the latest heartbeat in ms (0 = not on time for a whole lease), $5 earlier id (0 = none).
WHERE i.id <> $1::int AND i.fenced_at IS NULL
  AND (i.host_id = $2::text OR i.id = $5::int
       OR ($4::bigint > extract(epoch FROM clock_timestamp()) * 1000 - $3::bigint / 3
           AND i.heartbeat_at < clock_timestamp() - $3::bigint * interval '1 millisecond'))
