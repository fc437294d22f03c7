-- Notes that this sidecar lists these consumers: they are known from now on, until their memory has passed after the
-- last note. With $6 their definitions replace other ones, because the sidecar has just registered.
-- Caller: store/batches/known_consumers.c, at the start of an instance run and with each third of a lease.
-- The type * alone is the default written out, so it is no other definition.
-- Index: inbox_consumers_pkey (small table).
-- $1 names, $2 topics, $3 types (NULL = all), $4 orderings, $5 memory in ms, $6 whether to define them.
-- Rows that are locked are left out; the next note has them. So are names that were renamed a moment ago: the sidecar is about
-- to begin a new instance run. Back: the consumers that were noted, with the earlier
-- definition and the new one if it was replaced.
WITH listed AS MATERIALIZED (
    SELECT l.* FROM unnest($1::text[], $2::jsonb[], $3::jsonb[], $4::text[]) AS l(name, topics, types, ordering)
    WHERE NOT EXISTS (SELECT FROM inbox.inbox_renames r WHERE r.old_name = l.name)
), before AS MATERIALIZED (
    SELECT c.name, c.topics, c.types, c.ordering, c.listed_at < clock_timestamp() - c.memory AS lapsed
    FROM inbox.inbox_consumers c
    WHERE c.name = ANY ($1::text[]) ORDER BY c.name FOR NO KEY UPDATE SKIP LOCKED
), made AS (
    INSERT INTO inbox.inbox_consumers (name, topics, types, ordering, memory)
    SELECT l.name, l.topics, l.types, l.ordering, $5::bigint * interval '1 millisecond'
    FROM listed l
    WHERE NOT EXISTS (SELECT FROM inbox.inbox_consumers c WHERE c.name = l.name)
    ORDER BY l.name
    ON CONFLICT (name) DO NOTHING
    RETURNING name
), changed AS MATERIALIZED (
    SELECT b.name,
           $6::boolean AND (b.topics, nullif(b.types, '["*"]'), b.ordering)
               IS DISTINCT FROM (l.topics, nullif(l.types, '["*"]'), l.ordering) AS replaced,
           b.lapsed
    FROM before b JOIN listed l ON l.name = b.name
), noted AS (
    UPDATE inbox.inbox_consumers c
    SET topics = CASE WHEN n.replaced THEN l.topics ELSE c.topics END,
        types = CASE WHEN n.replaced THEN l.types ELSE c.types END,
        ordering = CASE WHEN n.replaced THEN l.ordering ELSE c.ordering END,
        defined_at = CASE WHEN n.replaced THEN clock_timestamp() ELSE c.defined_at END,
        known_since = CASE WHEN n.lapsed THEN clock_timestamp() ELSE c.known_since END,
        memory = $5::bigint * interval '1 millisecond', listed_at = clock_timestamp()
    FROM changed n JOIN listed l ON l.name = n.name
    WHERE c.name = n.name
)
SELECT m.name, NULL, NULL FROM made m
UNION ALL
SELECT b.name, CASE WHEN n.replaced THEN jsonb_strip_nulls(jsonb_build_object(
           'topics', b.topics, 'types', b.types, 'ordering', b.ordering))::text END,
       CASE WHEN n.replaced THEN jsonb_strip_nulls(jsonb_build_object(
           'topics', l.topics, 'types', l.types, 'ordering', l.ordering))::text END
FROM before b JOIN changed n ON n.name = b.name JOIN listed l ON l.name = b.name
