-- The rows with an event id, one for each source and consumer: all columns as JSON, the payload as text (NULL = not text),
-- its bytes, whether it is shown as formatted JSON, and whether retention has dropped it. The keys of the JSON are the
-- columns of the view. A message that waits also has wanted_by, the handler that gets it (null = no known one wants it),
-- and as far as they apply: paused, the pause that holds it back; waits_for, its handler that is away; waits_behind, the
-- earlier message of its key.
-- Caller: ops/show.c. Index: inbox_messages_pkey, and those of inbox.waits_behind().
-- $1 event id, $2 source (NULL = any), $3 consumer (NULL = any).
SELECT m.source,
       concat(left(row_to_json(m)::text, -1), CASE WHEN m.available_at IS NOT NULL THEN
                  concat(',"wanted_by":', coalesce(to_json(n.wanted_by)::text, 'null'), ',"paused":' || p.paused,
                         ',"waits_for":' || to_json(w.waits_for), ',"waits_behind":' || b.waits_behind) END, '}'),
       coalesce(f.formatted, m.payload_text), m.payload, m.seq,
       f.formatted IS NOT NULL, m.payload IS NULL AND m.payload_digest IS NOT NULL
FROM inbox.messages m
-- include: formatted
CROSS JOIN LATERAL (
    SELECT CASE WHEN m.available_at IS NOT NULL THEN inbox.handler_of(m.topic, m.event_type, m.consumer) END AS wanted_by
    OFFSET 0) n
LEFT JOIN LATERAL (
    SELECT row_to_json(p)::text AS paused FROM inbox.inbox_pauses p
    WHERE p.kind = 'topic' AND p.name = m.topic OR p.kind = 'consumer' AND p.name = m.consumer
       OR p.kind = 'handler' AND p.name = n.wanted_by
    ORDER BY p.kind DESC LIMIT 1) p ON true
LEFT JOIN LATERAL (
    SELECT h.name AS waits_for FROM inbox.handlers h
    WHERE h.status = 'away' AND h.consumer = m.consumer AND h.name = n.wanted_by) w ON true
LEFT JOIN LATERAL (
    SELECT json_build_object('seq', e.seq, 'source', e.source, 'event_id', e.event_id, 'status', e.status,
                             'available_at', e.available_at)::text AS waits_behind
    FROM inbox.messages e
    WHERE m.available_at IS NOT NULL AND e.seq = inbox.waits_behind(m.seq)) b ON true
WHERE m.event_id = $1::text AND ($2::text IS NULL OR m.source = $2::text)
  AND ($3::text IS NULL OR m.consumer = $3::text)
ORDER BY m.source, m.consumer
LIMIT 100
