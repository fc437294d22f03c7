-- Whether this instance lacks a handler that another live member of the group has, and for how long (rule R16).
-- Marks the instance as away if it has lacked one for too long, and as back when it lacks none any more.
-- Caller: store/leases/instance.c, with each heartbeat. Index: inbox_instances_pkey (small table).
-- $1 own id, $2 lease in ms, $3 absence in ms (-1 = never). Back: away, and the handlers it lacks.
WITH lacking AS MATERIALIZED (
    SELECT string_agg(DISTINCT coalesce(h.handler ->> 'name', h.handler #>> '{}'), ', ') AS names
    FROM inbox.inbox_instances o
    CROSS JOIN LATERAL jsonb_array_elements(o.handlers) AS h(handler)
    WHERE o.id <> $1::int AND o.fenced_at IS NULL AND o.away_at IS NULL
      AND o.heartbeat_at > clock_timestamp() - $2::bigint * interval '1 millisecond'
      AND NOT EXISTS (SELECT FROM inbox.inbox_instances me
                      WHERE me.id = $1::int AND me.handlers @> jsonb_build_array(h.handler))
)
UPDATE inbox.inbox_instances i
SET lacking_since = CASE WHEN l.names IS NOT NULL THEN coalesce(i.lacking_since, clock_timestamp()) END,
    away_at = CASE WHEN l.names IS NULL OR $3::bigint < 0 THEN NULL
                   WHEN i.away_at IS NOT NULL THEN i.away_at
                   WHEN i.lacking_since <= clock_timestamp() - $3::bigint * interval '1 millisecond'
                   THEN clock_timestamp() END
FROM lacking l
WHERE i.id = $1::int
  AND (l.names IS NOT NULL OR i.lacking_since IS NOT NULL OR i.away_at IS NOT NULL)
RETURNING i.away_at IS NOT NULL, l.names
