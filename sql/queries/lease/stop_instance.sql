-- Records that the instance has stopped: it holds nothing any more.
-- Caller: store/leases/instance.c, last step of a clean stop. Index: inbox_instances_pkey.
-- $1 id.
UPDATE inbox.inbox_instances
SET fenced_at = coalesce(fenced_at, clock_timestamp()), stopped_at = clock_timestamp()
WHERE id = $1::int
