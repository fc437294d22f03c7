-- The partitions of inbox.status(), as cells. A handler of a consumer with a name is CONSUMER/HANDLER.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT p ->> 'topic', p ->> 'kafka_partition', coalesce(p ->> 'next_offset', '-'), p ->> 'waiting', p ->> 'parked',
       coalesce(o.name, p ->> 'owner', 'nobody'), coalesce(o.handlers, '-')
FROM jsonb_array_elements($1::jsonb -> 'partitions') WITH ORDINALITY AS e(p, n)
LEFT JOIN LATERAL (
    SELECT i ->> 'name' AS name,
           (SELECT string_agg(h.name, ', ' ORDER BY h.name)
            FROM (SELECT coalesce((h ->> 'consumer') || '/' || (h ->> 'name'), h #>> '{}') AS name
                  FROM jsonb_array_elements(i -> 'handlers') h) h) AS handlers
    FROM jsonb_array_elements($1::jsonb -> 'instances') i
    WHERE i -> 'id' = p -> 'owner'
    LIMIT 1) o ON true
ORDER BY n
