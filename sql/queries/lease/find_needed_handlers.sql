-- The handlers that messages of own partitions need, that are not connected here, and that another live member of the group
-- has (rule R16). Without such a handler in the group it reads no message.
-- A parked message needs the handler that it is for. So does a due message whose consumer has no handler here, because
-- such a message is not parked. Of each stream only some messages at both ends are read: the oldest, and those that
-- arrived last.
-- Caller: store/leases/instance.c, every third of a lease, outside of the lock of check_missing_handlers. Index: inbox_messages_due.
-- $1 own id, $2 lease in ms, $3 how many messages of a stream. Back: the handlers as a JSON array, as in inbox_instances.handlers; NULL: none.
WITH elsewhere AS MATERIALIZED (
    SELECT h.name, h.consumer, h.entry
    FROM (SELECT k.name, k.consumer,
                 CASE k.consumer WHEN '' THEN to_jsonb(k.name)
                 ELSE jsonb_build_object('name', k.name, 'consumer', k.consumer) END AS entry
          FROM inbox.inbox_handlers k
          WHERE NOT EXISTS (SELECT FROM inbox.inbox_pauses x
                            WHERE x.kind = 'handler' AND x.name = k.name OR x.kind = 'consumer' AND x.name = k.consumer)) h
    WHERE
    -- include: connected_elsewhere
), consumers AS MATERIALIZED (
    SELECT e.consumer, EXISTS (SELECT FROM inbox.inbox_instances me, jsonb_array_elements(me.handlers) AS own(entry)
                               WHERE me.id = $1::int AND coalesce(own.entry ->> 'consumer', '') = e.consumer) AS attended
    FROM (SELECT DISTINCT consumer FROM elsewhere) e
), needs AS MATERIALIZED (
    SELECT DISTINCT o.topic, c.consumer, m.event_type
    FROM consumers c
    JOIN inbox.inbox_offsets o ON o.owner = $1::int
    CROSS JOIN LATERAL (
        (SELECT r.event_type FROM inbox.inbox_messages r
         WHERE r.topic = o.topic AND r.kafka_partition = o.kafka_partition AND r.consumer = c.consumer AND r.available_at = 'infinity'
         ORDER BY r.seq LIMIT $3::bigint)
        UNION ALL
        (SELECT r.event_type FROM inbox.inbox_messages r
         WHERE r.topic = o.topic AND r.kafka_partition = o.kafka_partition AND r.consumer = c.consumer AND r.available_at = 'infinity'
         ORDER BY r.seq DESC LIMIT $3::bigint)
        UNION ALL
        (SELECT r.event_type FROM inbox.inbox_messages r
         WHERE r.topic = o.topic AND r.kafka_partition = o.kafka_partition AND r.consumer = c.consumer AND NOT c.attended
           AND r.available_at > '-infinity' AND r.available_at <= now()
         ORDER BY r.available_at, r.seq LIMIT $3::bigint)) m
    WHERE NOT EXISTS (SELECT FROM inbox.inbox_pauses x WHERE x.kind = 'topic' AND x.name = o.topic)
    LIMIT 100
)
SELECT jsonb_agg(e.entry)
FROM elsewhere e
WHERE (e.name, e.consumer) IN (
    SELECT inbox.handler_of(n.topic, n.event_type, n.consumer, me.handlers), n.consumer
    FROM needs n JOIN inbox.inbox_instances me ON me.id = $1::int)
