-- The rows with an event id, one for each source and consumer: the state (discarded ones apart from other dead ones), when it is tried again if it is retrying, whether
-- retention has dropped its payload, whether it waits for a time that has not come, its state with the time and the
-- handler of its end, and what identifies these rows and those found before (op_count).
-- Caller: ops/replay.c. Index: inbox_messages_pkey.
-- $1 event id, $2 source (NULL = any), $3 consumer (NULL = any), $4 found before (NULL = none).
SELECT m.source,
       CASE WHEN m.dead_at IS NOT NULL AND m.error_code = 'DISCARDED' AND m.claimed_by IS NULL THEN 'discarded' ELSE m.status END,
       CASE WHEN m.status = 'retrying'
            THEN to_char(m.available_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END,
       m.payload IS NULL AND m.payload_digest IS NOT NULL, m.consumer,
       coalesce(m.available_at > now() AND m.available_at < 'infinity', false),
       concat(m.status, CASE m.status WHEN 'processed' THEN ' at ' WHEN 'dead' THEN ' since ' END
                        || to_char(coalesce(m.processed_at, m.dead_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
              CASE WHEN m.status = 'processed'
                   THEN ' by ' || coalesce(m.attempts -> -1 ->> 'called_done_by', m.handler) END),
       b.counted || jsonb_build_object('also', b.counted -> 'also' || jsonb_object_agg(v.xmin::text, 1) OVER ())
FROM (SELECT coalesce($4::jsonb, jsonb_build_object('below', pg_snapshot_xmin(s)::text::bigint, 'also', '{}'::jsonb)) AS counted
      FROM pg_current_snapshot() s) b
CROSS JOIN inbox.messages m
JOIN inbox.inbox_messages v ON v.seq = m.seq
WHERE m.event_id = $1::text AND ($2::text IS NULL OR m.source = $2::text)
  AND ($3::text IS NULL OR m.consumer = $3::text)
ORDER BY m.source, m.consumer
LIMIT 100
