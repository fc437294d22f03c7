-- The known consumers, with a row for each topic (kind 1) and type (kind 2) that they want, or one row (kind 0).
-- Caller: store/batches/known_consumers.c, behind keep_consumers, and after partitions were taken.
-- Index: inbox_consumers_pkey (small table).
-- Back: name, ordering, kind, topic or type.
SELECT c.name, c.ordering, coalesce(w.kind, 0), w.text
FROM inbox.inbox_consumers c
LEFT JOIN LATERAL (
    SELECT 1 AS kind, t.text, t.n FROM jsonb_array_elements_text(c.topics) WITH ORDINALITY AS t(text, n)
    UNION ALL
    SELECT 2, t.text, t.n FROM jsonb_array_elements_text(c.types) WITH ORDINALITY AS t(text, n)) w ON true
WHERE c.listed_at > clock_timestamp() - c.memory
ORDER BY c.name, w.kind, w.n
