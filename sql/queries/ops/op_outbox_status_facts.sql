-- Single values of inbox.outbox_status(), as cells.
-- Caller: ops/outbox.c. Index: none (its argument).
-- $1 the status.
SELECT replace(f.name, '_', ' '), coalesce($1::jsonb ->> f.name, '-')
       || CASE WHEN f.counts AND $1::jsonb ->> f.name = '10000' THEN ' or more' ELSE '' END
FROM (VALUES (1, 'waiting', true), (2, 'retrying', true), (3, 'parked', true), (4, 'dead', true),
             (5, 'oldest_seconds', false), (6, 'last_seq', false), (7, 'floor', false), (8, 'relay', false),
             (9, 'relay_seen_at', false)) AS f(n, name, counts)
ORDER BY f.n
