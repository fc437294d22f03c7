-- The sources that have an event id; for each the state, when it is tried again if it is retrying, and whether
-- retention has dropped its payload.
-- Caller: ops/replay.c. Index: inbox_messages_pkey.
-- $1 event id, $2 source (NULL = any).
SELECT m.source, m.status,
       CASE WHEN m.status = 'retrying'
            THEN to_char(m.available_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END,
       m.payload IS NULL AND m.payload_digest IS NOT NULL
FROM inbox.messages m
WHERE m.event_id = $1::text AND ($2::text IS NULL OR m.source = $2::text)
ORDER BY m.source
LIMIT 20
