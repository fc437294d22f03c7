-- The consumers of inbox.status(), as cells.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT CASE c ->> 'name' WHEN '' THEN '''''' ELSE c ->> 'name' END,
       (c ->> 'waiting') || CASE WHEN (c ->> 'waiting')::bigint >= 10000 THEN ' or more' ELSE '' END,
       CASE c ->> 'status'
           WHEN 'listed' THEN 'listed'
           WHEN 'unlisted' THEN concat('in no running sidecar''s list: messages are stored for it until ',
                                 coalesce(to_char((c ->> 'known_until')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                                          'it is listed, renamed or forgotten'))
           ELSE 'no longer known: these messages wait for nobody'
                || CASE WHEN c -> 'handlers' <> '[]' THEN concat(', and the connected handler ', c -> 'handlers' ->> 0, ' gets no new ones')
                        ELSE '' END END
       || CASE WHEN c -> 'moving' = 'true' THEN ', and its rename is not finished: run `inboxd consumers rename` again' ELSE '' END,
       c ->> 'attention'
FROM jsonb_array_elements($1::jsonb -> 'consumers') WITH ORDINALITY AS e(c, n)
ORDER BY n
