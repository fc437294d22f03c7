-- The rows with an event id, one for each source and consumer: the state, when it is tried again if it is retrying, whether
-- retention has dropped its payload, whether it waits for a time that has not come, and its state with the time and the
-- handler of its end.
-- Caller: ops/replay.c. Index: inbox_messages_pkey.
-- $1 event id, $2 source (NULL = any), $3 consumer (NULL = any).
SELECT m.source, m.status,
       CASE WHEN m.status = 'retrying'
            THEN to_char(m.available_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END,
       m.payload IS NULL AND m.payload_digest IS NOT NULL, m.consumer,
       coalesce(m.available_at > now() AND m.available_at < 'infinity', false),
       concat(m.status, CASE m.status WHEN 'processed' THEN ' at ' WHEN 'dead' THEN ' since ' END
                        || to_char(coalesce(m.processed_at, m.dead_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
              CASE WHEN m.status = 'processed'
                   THEN ' by ' || coalesce(m.attempts -> -1 ->> 'called_done_by', m.handler) END)
FROM inbox.messages m
WHERE m.event_id = $1::text AND ($2::text IS NULL OR m.source = $2::text)
  AND ($3::text IS NULL OR m.consumer = $3::text)
ORDER BY m.source, m.consumer
LIMIT 100
