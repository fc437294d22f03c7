-- The consumers, as cells of a table and as one JSON object each.
-- Caller: ops/handlers.c. Index: inbox_consumers_pkey (small table), inbox_messages_due.
SELECT CASE c.name WHEN '' THEN '''''' ELSE c.name END, c.status, c.ordering,
       c.waiting::text || CASE WHEN c.waiting >= 10000 THEN ' or more' ELSE '' END,
       to_char(c.known_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(c.listed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       CASE WHEN c.status = 'unlisted' THEN to_char(c.known_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END,
       coalesce((SELECT string_agg(t, ' ') FROM jsonb_array_elements_text(c.topics) t), '*'),
       coalesce((SELECT string_agg(t, ' ') FROM jsonb_array_elements_text(c.types) t), '*'),
       nullif(array_to_string(c.handlers, ' '), ''),
       CASE WHEN c.earlier_names <> '{}' THEN
           (SELECT string_agg(CASE e.name WHEN '' THEN '''''' ELSE e.name END, ' ') FROM unnest(c.earlier_names) AS e(name))
           || CASE WHEN c.moving THEN ' (rename not finished)' ELSE '' END END,
       c.attention,
       row_to_json(c)::text
FROM inbox.consumers c
ORDER BY c.name
