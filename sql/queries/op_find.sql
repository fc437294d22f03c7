-- The sources that have an event id, and each one's state.
-- Caller: admin/op_change.c. Index: inbox_messages_pkey.
-- $1 event id, $2 source (NULL = any).
SELECT m.source, m.status
FROM inbox.messages m
WHERE m.event_id = $1::text AND ($2::text IS NULL OR m.source = $2::text)
ORDER BY m.source
LIMIT 20
