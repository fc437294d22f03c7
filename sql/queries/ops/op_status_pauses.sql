-- The pauses of inbox.status(), as cells.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT p ->> 'kind', CASE p ->> 'name' WHEN '' THEN '''''' ELSE p ->> 'name' END,
       to_char((p ->> 'since')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), p ->> 'who',
       CASE WHEN (p ->> 'ingest')::boolean THEN 'delivery, reading' ELSE 'delivery' END, p ->> 'reason'
FROM jsonb_array_elements($1::jsonb -> 'pauses') WITH ORDINALITY AS e(p, n)
ORDER BY n
