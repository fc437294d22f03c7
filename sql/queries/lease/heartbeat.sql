-- Renews the lease, and publishes the lower bounds of the rows that this instance may hold (rule R3).
-- Caller: store/leases/instance.c, every third of a lease. Index: inbox_instances_pkey.
-- $1 id, $2 low_seq, $3 handlers, $4 low_claim, $5 low_rest, $6 stragglers. A heartbeat that comes late, over a
-- connection that was given up, has a lower low_rest, or the same and stragglers that are done: its stragglers do not
-- belong to a higher one. No row back: this instance is fenced, its row is gone,
-- or PostgreSQL failed over to another timeline, which may lack what memory holds (rule R2).
UPDATE inbox.inbox_instances
SET heartbeat_at = clock_timestamp(), low_seq = greatest(low_seq, $2::bigint), handlers = $3::jsonb,
    low_claim = greatest(low_claim, $4::bigint),
    stragglers = CASE WHEN $5::bigint >= low_rest THEN $6::bigint[] ELSE stragglers END,
    low_rest = greatest(low_rest, $5::bigint)
-- include: lease
RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint
