-- Stops the delivery to a topic, a consumer or a handler.
-- Caller: ops/pause.c. Index: inbox_pauses_pkey; inbox_offsets_pkey, inbox_consumers_pkey, inbox_handlers_pkey (small tables).
-- $1 kind, $2 name, $3 reason, $4 whether the topic is not read either. Back: whether something has changed, whether it was
-- paused, whether it was not read either, whether the schema has such a target.
SELECT inbox.pause($1::text, $2::text, $3::text, $4::boolean), p.name IS NOT NULL, coalesce(p.ingest, false),
       CASE $1::text
           WHEN 'topic' THEN EXISTS (SELECT FROM inbox.inbox_offsets o WHERE o.topic = $2::text)
           WHEN 'consumer' THEN $2::text = '' OR EXISTS (SELECT FROM inbox.inbox_consumers c WHERE c.name = $2::text)
           ELSE EXISTS (SELECT FROM inbox.inbox_handlers h WHERE h.name = $2::text) END
FROM (SELECT $1::text AS kind, $2::text AS name) t
LEFT JOIN inbox.inbox_pauses p ON p.kind = t.kind AND p.name = t.name
