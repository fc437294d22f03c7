-- Declares instances dead. Their partitions lose their owner in the same statement, so none of their transactions can
-- commit any more.
-- Caller: store/leases/instance.c, at start and after steady heartbeats. Index: inbox_instances_pkey (small table).
-- $1 to $5 as in dead_instances.
WITH dead AS (
    SELECT i.id FROM inbox.inbox_instances i
    -- include: dead_instances
    ORDER BY i.id
    FOR UPDATE SKIP LOCKED
), fenced AS (
    UPDATE inbox.inbox_instances i SET fenced_at = clock_timestamp()
    FROM dead WHERE i.id = dead.id
    RETURNING i.id
), orphaned AS (
    UPDATE inbox.inbox_offsets o SET owner = NULL, epoch = o.epoch + 1, updated_at = now()
    FROM fenced WHERE o.owner = fenced.id
    RETURNING o.owner
)
SELECT id, (SELECT count(*) FROM orphaned) FROM fenced
