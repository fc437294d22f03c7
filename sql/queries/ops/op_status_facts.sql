-- Single values of inbox.status(), as cells.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT replace(f.name, '_', ' '), coalesce($1::jsonb ->> f.name, '-')
       || CASE WHEN $1::jsonb ->> f.name = '10000' THEN ' or more' ELSE '' END
FROM unnest(ARRAY['waiting', 'parked', 'dead', 'rejects', 'conflicts', 'oldest_waiting_seconds', 'messages_estimate',
                  'schema_version', 'cluster_id', 'group_id']) WITH ORDINALITY AS f(name, n)
ORDER BY f.n
