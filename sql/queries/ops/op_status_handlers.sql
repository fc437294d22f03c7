-- The handlers of inbox.status(), as cells.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT h ->> 'name', h ->> 'consumer',
       CASE h ->> 'status'
           WHEN 'connected' THEN concat('connected to ', (SELECT string_agg(i, ', ') FROM jsonb_array_elements_text(h -> 'instances') i))
           ELSE concat('away since ', to_char((h ->> 'last_seen_at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                       ': its messages wait for it until ', to_char((h ->> 'known_until')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) END
FROM jsonb_array_elements($1::jsonb -> 'handlers') WITH ORDINALITY AS e(h, n)
ORDER BY n
