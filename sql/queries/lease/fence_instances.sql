-- Declares instances dead: earlier ones with our host_id (we hold the lock of their socket), the earlier one of this
-- process, and, if $4 says that our own heartbeats were on time for a whole lease, those whose lease has ended.
-- Their partitions lose their owner in the same statement, so none of their transactions can commit any more.
-- Caller: store/leases/instance.c, at start and after steady heartbeats. Index: inbox_instances_pkey (small table).
-- $1 own id, $2 host_id, $3 lease in ms, $4 whether ended leases may be fenced, $5 earlier id (0 = none).
WITH dead AS (
    SELECT id FROM inbox.inbox_instances
    WHERE id <> $1::int AND fenced_at IS NULL
      AND (host_id = $2::text OR id = $5::int
           OR ($4::boolean AND heartbeat_at < clock_timestamp() - $3::bigint * interval '1 millisecond'))
    ORDER BY id
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
