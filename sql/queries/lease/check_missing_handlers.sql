-- Whether this instance must be out of the group, because it needs a handler that another live member has (rule R16). Marks
-- it as away if it has needed one for too long, and as back when none of them is missing any more. At most half of the
-- group is away: those that were first.
-- Caller: store/leases/instance.c, every third of a lease, after lock_absence. Index: inbox_instances_pkey (small table).
-- $1 own id, $2 lease in ms, $3 absence in ms, $4 the handlers it needs, a JSON array. Back: away, and those that are missing.
WITH missing AS MATERIALIZED (
    SELECT string_agg(DISTINCT coalesce(h.entry ->> 'name', h.entry #>> '{}'), ', ') AS names
    FROM jsonb_array_elements($4::jsonb) AS h(entry)
    WHERE
    -- include: connected_elsewhere
), members AS MATERIALIZED (
    SELECT o.id, o.away_at FROM inbox.inbox_instances o
    WHERE o.fenced_at IS NULL AND o.heartbeat_at > clock_timestamp() - $2::bigint * interval '1 millisecond'
)
UPDATE inbox.inbox_instances i
SET lacking_since = CASE WHEN l.names IS NOT NULL THEN coalesce(i.lacking_since, clock_timestamp()) END,
    away_at = CASE WHEN l.names IS NULL
                     OR 2 * (1 + (SELECT count(*) FROM members o
                                  WHERE o.id <> i.id AND (o.away_at, o.id) < (coalesce(i.away_at, 'infinity'), i.id)))
                        > (SELECT count(*) FROM members) THEN NULL
                   WHEN i.away_at IS NOT NULL THEN i.away_at
                   WHEN i.lacking_since <= clock_timestamp() - $3::bigint * interval '1 millisecond'
                   THEN clock_timestamp() END
FROM missing l
WHERE i.id = $1::int
  AND (l.names IS NOT NULL OR i.lacking_since IS NOT NULL OR i.away_at IS NOT NULL)
RETURNING i.away_at IS NOT NULL, l.names
