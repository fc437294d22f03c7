-- The rows with an event id, one for each source and consumer: all columns as JSON, the payload as text (NULL = not text),
-- its bytes, whether it is shown as formatted JSON, and whether retention has dropped it. The keys of the JSON are the
-- columns of the view. A message that waits for an away handler also has waits_for, and one that waits for an earlier
-- message of its key has waits_behind.
-- Caller: ops/show.c. Index: inbox_messages_pkey, and those of inbox.waits_behind().
-- $1 event id, $2 source (NULL = any), $3 consumer (NULL = any).
SELECT m.source,
       concat(left(row_to_json(m)::text, -1), ',"waits_for":' || to_json(w.waits_for), ',"waits_behind":' || b.waits_behind, '}'),
       coalesce(jsonb_pretty(m.payload_json), m.payload_text), m.payload, m.seq,
       m.payload_json IS NOT NULL, m.payload IS NULL AND m.payload_digest IS NOT NULL
FROM inbox.messages m
LEFT JOIN LATERAL (
    SELECT h.name AS waits_for FROM inbox.handlers h
    WHERE m.available_at IS NOT NULL AND h.status = 'away'
      AND h.consumer = m.consumer AND h.name = inbox.handler_of(m.topic, m.event_type, m.consumer)) w ON true
LEFT JOIN LATERAL (
    SELECT json_build_object('seq', e.seq, 'source', e.source, 'event_id', e.event_id, 'status', e.status,
                             'available_at', e.available_at)::text AS waits_behind
    FROM inbox.messages e
    WHERE m.available_at IS NOT NULL AND e.seq = inbox.waits_behind(m.seq)) b ON true
WHERE m.event_id = $1::text AND ($2::text IS NULL OR m.source = $2::text)
  AND ($3::text IS NULL OR m.consumer = $3::text)
ORDER BY m.source, m.consumer
LIMIT 100
