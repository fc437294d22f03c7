-- Records the handlers of this sidecar: the subscriptions of a new hello, that a handler is connected, or when it
-- left. All of them get the memory that this sidecar is configured with. Handlers whose memory ended a day ago are
-- deleted, and so are those of a consumer under an earlier name. So are those beyond 1,000: first those whose memory has ended, then those that were known for the shortest time.
-- Caller: store/claims/known_handlers.c, with each third of a lease and soon after a hello or the end of a handler's
-- last connection.
-- Index: inbox_handlers_pkey (small table).
-- $1 names, $2 consumers, $3 subscriptions, $4 ms since the hello, $5 ms since the last connection (0 = connected),
-- $6 whether the hello is not recorded yet, $7 memory in ms, $8 own id. The own row is updated at once, not with the
-- next heartbeat.
-- A hello changes the subscriptions only once, so those of a newer hello at another sidecar stay. A handler that left and
-- was forgotten stays forgotten. The rows of the given handlers are locked in the order of their names, and locked rows of
-- others are skipped, so that two sidecars cannot deadlock.
WITH said AS MATERIALIZED (
    SELECT s.*, clock_timestamp() - s.said_ms * interval '1 millisecond' AS said_at
    FROM unnest($1::text[], $2::text[], $3::jsonb[], $4::bigint[], $5::bigint[], $6::boolean[])
        AS s(name, consumer, subscriptions, said_ms, gone_ms, fresh)
), locked AS MATERIALIZED (
    SELECT h.name, h.consumer FROM inbox.inbox_handlers h
    WHERE (h.name, h.consumer) IN (SELECT s.name, s.consumer FROM said s) ORDER BY h.name, h.consumer FOR UPDATE
), over AS (
    DELETE FROM inbox.inbox_handlers
    WHERE (name, consumer) IN (
        SELECT h.name, h.consumer FROM inbox.inbox_handlers h
        WHERE (h.last_seen_at < clock_timestamp() - h.memory - interval '1 day'
               OR h.consumer IN (SELECT r.old_name FROM inbox.inbox_renames r)
               OR (h.name, h.consumer) IN (
                   SELECT k.name, k.consumer FROM inbox.inbox_handlers k
                   ORDER BY k.last_seen_at > clock_timestamp() - k.memory DESC, k.last_seen_at - k.known_since DESC,
                            k.name, k.consumer
                   OFFSET 1000))
          AND NOT EXISTS (SELECT FROM said s WHERE s.name = h.name AND s.consumer = h.consumer)
        FOR UPDATE SKIP LOCKED)
), length AS (
    UPDATE inbox.inbox_handlers SET memory = $7::bigint * interval '1 millisecond'
    WHERE (name, consumer) IN (
        SELECT h.name, h.consumer FROM inbox.inbox_handlers h
        WHERE h.memory <> $7::bigint * interval '1 millisecond'
          AND NOT EXISTS (SELECT FROM said s WHERE s.name = h.name AND s.consumer = h.consumer)
          AND h.last_seen_at >= clock_timestamp() - h.memory - interval '1 day'
        FOR UPDATE SKIP LOCKED)
), here AS (
    SELECT coalesce(jsonb_agg(CASE s.consumer WHEN '' THEN to_jsonb(s.name)
                              ELSE jsonb_build_object('name', s.name, 'consumer', s.consumer) END
                              ORDER BY s.name, s.consumer), '[]') AS names
    FROM said s WHERE s.gone_ms = 0
), shown AS (
    UPDATE inbox.inbox_instances i SET handlers = here.names
    FROM here
    WHERE NOT (i.handlers @> here.names AND i.handlers <@ here.names)
      AND i.id IN (SELECT o.id FROM inbox.inbox_instances o
                   WHERE o.id = $8::int AND o.fenced_at IS NULL
                   FOR NO KEY UPDATE SKIP LOCKED)
)
INSERT INTO inbox.inbox_handlers AS h (name, consumer, subscriptions, memory, known_since, connected_at, last_seen_at)
SELECT s.name, s.consumer, s.subscriptions, $7::bigint * interval '1 millisecond',
       s.said_at, s.said_at, clock_timestamp() - s.gone_ms * interval '1 millisecond'
FROM said s
WHERE s.fresh OR s.gone_ms = 0 OR (s.name, s.consumer) IN (SELECT l.name, l.consumer FROM locked l)
ORDER BY s.name COLLATE "C", s.consumer COLLATE "C"
ON CONFLICT (name, consumer) DO UPDATE
SET subscriptions = CASE WHEN excluded.connected_at > h.connected_at
                          AND (SELECT s.fresh FROM said s WHERE s.name = h.name AND s.consumer = h.consumer)
                         THEN excluded.subscriptions ELSE h.subscriptions END,
    connected_at = CASE WHEN (SELECT s.fresh FROM said s WHERE s.name = h.name AND s.consumer = h.consumer)
                        THEN greatest(h.connected_at, excluded.connected_at) ELSE h.connected_at END,
    known_since = CASE WHEN h.last_seen_at < excluded.connected_at - h.memory THEN excluded.known_since
                       ELSE h.known_since END,
    memory = excluded.memory,
    last_seen_at = greatest(h.last_seen_at, excluded.last_seen_at)
