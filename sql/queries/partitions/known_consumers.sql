-- The known consumers, with a row for each topic (kind 1) and type (kind 2) that they want, or one row (kind 0); the renames,
-- with the new name (kind 3; 4 while rows still have the earlier one); the handlers of the consumer without a name, if it is
-- known (kind 5); and the known consumers that no sidecar has listed for a minute (kind 6; the view inbox.consumers).
-- Caller: store/batches/known_consumers.c, at the start of an instance run, behind keep_consumers, and after partitions were taken.
-- Index: inbox_consumers_pkey, inbox_renames_pkey, inbox_handlers_pkey (small tables).
-- Back: name, ordering, kind, and the topic, the type, the new name or the handler.
SELECT k.name, k.ordering, k.kind, k.text
FROM (
    SELECT c.name, c.ordering, coalesce(w.kind, 0) AS kind, w.text, w.n
    FROM inbox.inbox_consumers c
    LEFT JOIN LATERAL (
        SELECT 1 AS kind, t.text, t.n FROM jsonb_array_elements_text(c.topics) WITH ORDINALITY AS t(text, n)
        UNION ALL
        SELECT 2, t.text, t.n FROM jsonb_array_elements_text(c.types) WITH ORDINALITY AS t(text, n)
        UNION ALL
        SELECT 6, NULL, 1
        WHERE c.listed_at <= clock_timestamp() - least(c.memory, '1 minute') OR c.listed_at = 'infinity') w ON true
    WHERE (c.listed_at > clock_timestamp() - c.memory OR c.name = '')
      AND NOT EXISTS (SELECT FROM inbox.inbox_renames r WHERE r.old_name = c.name)
    UNION ALL
    SELECT r.old_name, NULL, CASE WHEN r.moved_at IS NULL THEN 4 ELSE 3 END, r.new_name, 1 FROM inbox.inbox_renames r
    UNION ALL
    SELECT '', NULL, 5, h.name, 1 FROM inbox.inbox_handlers h
    WHERE h.consumer = '' AND EXISTS (SELECT FROM inbox.inbox_consumers c WHERE c.name = '')
      AND NOT EXISTS (SELECT FROM inbox.inbox_renames r WHERE r.old_name = '')) k
ORDER BY k.name, k.kind, k.n
