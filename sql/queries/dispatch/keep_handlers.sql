-- Records the handlers of this sidecar: the subscriptions of a new hello, that a handler is connected, or when it
-- left. All of them get the memory that this sidecar is configured with. Handlers whose memory ended a day ago are
-- deleted.
-- Caller: store/claims/known_handlers.c, with each third of a lease and soon after a hello or the end of a handler's last connection.
-- Index: inbox_handlers_pkey (small table).
-- $1 names, $2 subscriptions, $3 ms since the hello, $4 ms since the last connection (0 = connected), $5 whether the hello
-- is not recorded yet, $6 memory in ms, $7 own id. The own row is updated at once, not with the next heartbeat.
-- A hello changes the subscriptions only once, so those of a newer hello at another sidecar stay. A handler that left and
-- was forgotten stays forgotten. Rows are locked in the order of their names, or skipped, so that two sidecars cannot
-- deadlock.
WITH said AS MATERIALIZED (
    SELECT s.*, clock_timestamp() - s.said_ms * interval '1 millisecond' AS said_at
    FROM unnest($1::text[], $2::jsonb[], $3::bigint[], $4::bigint[], $5::boolean[])
        AS s(name, subscriptions, said_ms, gone_ms, fresh)
), locked AS MATERIALIZED (
    SELECT h.name FROM inbox.inbox_handlers h
    WHERE h.name = ANY ($1::text[]) ORDER BY h.name FOR UPDATE
), over AS (
    DELETE FROM inbox.inbox_handlers
    WHERE name IN (SELECT h.name FROM inbox.inbox_handlers h
                   WHERE h.last_seen_at < clock_timestamp() - h.memory - interval '1 day'
                     AND h.name <> ALL ($1::text[])
                   FOR UPDATE SKIP LOCKED)
), length AS (
    UPDATE inbox.inbox_handlers SET memory = $6::bigint * interval '1 millisecond'
    WHERE name IN (SELECT h.name FROM inbox.inbox_handlers h
                   WHERE h.memory <> $6::bigint * interval '1 millisecond' AND h.name <> ALL ($1::text[])
                     AND h.last_seen_at >= clock_timestamp() - h.memory - interval '1 day'
                   FOR UPDATE SKIP LOCKED)
), here AS (
    SELECT coalesce(jsonb_agg(s.name ORDER BY s.name), '[]') AS names FROM said s WHERE s.gone_ms = 0
), shown AS (
    UPDATE inbox.inbox_instances i SET handlers = here.names
    FROM here
    WHERE NOT (i.handlers @> here.names AND i.handlers <@ here.names)
      AND i.id IN (SELECT o.id FROM inbox.inbox_instances o
                   WHERE o.id = $7::int AND o.fenced_at IS NULL
                   FOR NO KEY UPDATE SKIP LOCKED)
)
INSERT INTO inbox.inbox_handlers AS h (name, subscriptions, memory, known_since, connected_at, last_seen_at)
SELECT s.name, s.subscriptions, $6::bigint * interval '1 millisecond',
       s.said_at, s.said_at, clock_timestamp() - s.gone_ms * interval '1 millisecond'
FROM said s
WHERE s.fresh OR s.gone_ms = 0 OR s.name IN (SELECT l.name FROM locked l)
ORDER BY s.name COLLATE "C"
ON CONFLICT (name) DO UPDATE
SET subscriptions = CASE WHEN excluded.connected_at > h.connected_at
                          AND (SELECT s.fresh FROM said s WHERE s.name = h.name)
                         THEN excluded.subscriptions ELSE h.subscriptions END,
    connected_at = CASE WHEN (SELECT s.fresh FROM said s WHERE s.name = h.name)
                        THEN greatest(h.connected_at, excluded.connected_at) ELSE h.connected_at END,
    known_since = CASE WHEN h.last_seen_at < excluded.connected_at - h.memory THEN excluded.known_since
                       ELSE h.known_since END,
    memory = excluded.memory,
    last_seen_at = greatest(h.last_seen_at, excluded.last_seen_at)
