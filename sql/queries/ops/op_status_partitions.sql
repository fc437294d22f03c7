-- The partitions of inbox.status(), as cells.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT p ->> 'topic', p ->> 'kafka_partition', coalesce(p ->> 'next_offset', '-'), p ->> 'waiting', p ->> 'parked',
       coalesce((SELECT i ->> 'name' FROM jsonb_array_elements($1::jsonb -> 'instances') i
                 WHERE i -> 'id' = p -> 'owner' LIMIT 1), p ->> 'owner', 'nobody'),
       coalesce((SELECT i ->> 'handlers' FROM jsonb_array_elements($1::jsonb -> 'instances') i
                 WHERE i -> 'id' = p -> 'owner' LIMIT 1), '-')
FROM jsonb_array_elements($1::jsonb -> 'partitions') WITH ORDINALITY AS e(p, n)
ORDER BY n
