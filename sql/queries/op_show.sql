-- All there is of the messages with an event id: as JSON, the payload for a person (NULL: not text), its bytes, whether
-- what is shown is JSON put in order, whether retention has dropped it.
-- Caller: admin/op_show.c. Index: inbox_messages_pkey.
-- $1 event id, $2 source (NULL = any).
SELECT m.source, row_to_json(m)::text, coalesce(jsonb_pretty(m.payload_json), m.payload_text), m.payload, m.seq,
       m.payload_json IS NOT NULL, m.payload IS NULL AND m.payload_digest IS NOT NULL
FROM inbox.messages m
WHERE m.event_id = $1::text AND ($2::text IS NULL OR m.source = $2::text)
ORDER BY m.source
LIMIT 20
