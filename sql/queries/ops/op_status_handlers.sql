-- The handlers of inbox.status(), as cells.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT h ->> 'name', h ->> 'consumer',
       CASE h ->> 'status'
           WHEN 'connected' THEN concat('connected to ', (SELECT string_agg(i, ', ') FROM jsonb_array_elements_text(h -> 'instances') i))
           ELSE concat('away since ', left(h ->> 'last_seen_at', 19), ': its messages wait for it until ',
                       left(h ->> 'known_until', 19)) END
FROM jsonb_array_elements($1::jsonb -> 'handlers') WITH ORDINALITY AS e(h, n)
ORDER BY n
