-- The handlers that are known, as cells of a table and as one JSON object each.
-- Caller: ops/handlers.c. Index: inbox_handlers_pkey (small table).
SELECT h.name, h.consumer, h.status, coalesce(nullif(array_to_string(h.instances, ', '), ''), '-'),
       to_char(h.known_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(h.connected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(h.last_seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(h.known_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       (SELECT string_agg(concat(coalesce(s.sub ->> 'topic', '*'), '/', coalesce(t.type, '*')), ' ' ORDER BY s.n, t.n)
        FROM jsonb_array_elements(h.subscriptions) WITH ORDINALITY AS s(sub, n)
        LEFT JOIN LATERAL jsonb_array_elements_text(
            CASE WHEN jsonb_typeof(s.sub -> 'types') = 'array' THEN s.sub -> 'types' END)
            WITH ORDINALITY AS t(type, n) ON true),
       row_to_json(h)::text
FROM inbox.handlers h
WHERE h.status <> 'lapsed'
ORDER BY h.name, h.consumer
