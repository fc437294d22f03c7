-- The known handlers, the newest hello first, with a row for each subscription: topic, type, and whether there is
-- one at all. The last column is the consumer.
-- Caller: store/claims/known_handlers.c, behind keep_handlers in one transaction. Index: inbox_handlers_pkey (small table).
-- $1 memory in ms, $2 lease in ms, $3 names and $4 consumers of the handlers whose subscriptions are not asked for: those
-- connected here. Not known is one whose memory is over, unless it is connected to a sidecar that is alive. With a
-- memory of 0 nobody is. At most 256 handlers are read.
SELECT h.name, h.known, (extract(epoch FROM h.connected_at) * 1000)::bigint, s.sub IS NOT NULL, s.sub ->> 'topic', t.type,
       h.consumer
FROM (SELECT k.name, k.consumer, k.subscriptions, k.connected_at,
             $1::bigint > 0
             AND (k.last_seen_at > clock_timestamp() - $1::bigint * interval '1 millisecond'
                  OR EXISTS (SELECT FROM inbox.inbox_instances i
                             WHERE i.fenced_at IS NULL AND i.stopped_at IS NULL
                               AND i.handlers @> CASE k.consumer WHEN '' THEN to_jsonb(k.name)
                                   ELSE jsonb_build_array(jsonb_build_object('name', k.name, 'consumer', k.consumer)) END
                               AND i.heartbeat_at > clock_timestamp() - $2::bigint * interval '1 millisecond')) AS known
      FROM inbox.inbox_handlers k
      -- Of many names that come once and never again, none displaces a handler that was known for longer.
      ORDER BY k.last_seen_at > clock_timestamp() - $1::bigint * interval '1 millisecond' DESC,
               k.last_seen_at - k.known_since DESC, k.name, k.consumer
      LIMIT 256) h
LEFT JOIN LATERAL jsonb_array_elements(
    CASE WHEN h.known AND (h.name, h.consumer) NOT IN (
        SELECT c.name, c.consumer FROM unnest($3::text[], $4::text[]) AS c(name, consumer)) THEN h.subscriptions END)
    WITH ORDINALITY AS s(sub, n) ON true
LEFT JOIN LATERAL jsonb_array_elements_text(CASE WHEN jsonb_typeof(s.sub -> 'types') = 'array' THEN s.sub -> 'types' END)
    WITH ORDINALITY AS t(type, n) ON true
ORDER BY h.connected_at DESC, h.name, h.consumer, s.n, t.n
