-- Renews the lease, and publishes the lower bounds of the rows that this instance may hold (rule R3). Reads what an instance
-- has to do for the others, and does nothing of it: whoever locks a row or a table of that work must not delay the lease.
-- So it reads no other table.
-- Caller: store/leases/instance.c, every third of a lease. Index: inbox_instances_pkey (small table).
-- Named: it reads one small table.
-- $1 id, $2 low_seq, $3 handlers, $4 low_claim, $5 low_rest, $6 stragglers, $7 lease in ms. A heartbeat that comes late, over a
-- connection that was given up, has a lower low_rest, or the same and stragglers that are done: its stragglers do not
-- belong to a higher one. No row back: this instance is fenced, its row is gone,
-- or PostgreSQL failed over to another timeline, which may lack what memory holds (rule R2).
-- Back: the time in ms; whether the lease of another instance has ended or its rows are not given back; whether a live
-- instance has a handler that is missing here, or the own row still says so (rule R16).
UPDATE inbox.inbox_instances
SET heartbeat_at = clock_timestamp(), low_seq = greatest(low_seq, $2::bigint), handlers = $3::jsonb,
    low_claim = greatest(low_claim, $4::bigint),
    stragglers = CASE WHEN $5::bigint >= low_rest THEN $6::bigint[] ELSE stragglers END,
    low_rest = greatest(low_rest, $5::bigint)
-- include: lease
RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
          EXISTS (SELECT FROM inbox.inbox_instances o
                  WHERE o.id <> $1::int AND o.rescued_at IS NULL
                    AND (o.fenced_at IS NOT NULL
                         OR o.heartbeat_at < clock_timestamp() - $7::bigint * interval '1 millisecond')),
          lacking_since IS NOT NULL OR away_at IS NOT NULL
          OR EXISTS (SELECT FROM inbox.inbox_instances o
                     WHERE o.id <> $1::int AND o.fenced_at IS NULL AND o.away_at IS NULL AND NOT o.handlers <@ $3::jsonb
                       AND o.heartbeat_at > clock_timestamp() - $7::bigint * interval '1 millisecond')
