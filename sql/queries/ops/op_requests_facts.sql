-- A request as cells: section, name, value. Empty values are left out.
-- Caller: ops/requests.c. Index: requests_pkey.
-- $1 key, $2 scope.
SELECT f.section, f.name, f.value
FROM inbox.request_states r
CROSS JOIN LATERAL (
    SELECT 1, v.n, 'request', v.name, v.value
    FROM (VALUES (1, 'key', r.key), (2, 'scope', nullif(r.scope, '')), (3, 'operation', nullif(r.operation, '')),
                 (4, 'fingerprint', encode(r.fingerprint, 'hex')), (5, 'state', r.state),
                 (6, 'lost', CASE WHEN r.lost THEN 'yes: its lease is over, and it has no result' END),
                 (7, 'attempt', r.attempt::text), (8, 'recovery point', r.point), (9, 'error', r.error),
                 (10, 'status', r.status::text), (11, 'body', r.body_bytes || ' bytes')) AS v(n, name, value)
    UNION ALL
    SELECT 2, t.n, 'timeline', to_char(t.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), t.words
    FROM (VALUES (1, r.created_at, 'begun'), (2, r.completed_at, 'completed'), (3, r.failed_at, 'failed'),
                 (4, r.locked_until, CASE WHEN r.lost THEN 'the lease was over' ELSE 'the lease is over' END),
                 (5, r.expires_at, 'expires')) AS t(n, at, words)
    WHERE t.at IS NOT NULL
) AS f(rank, n, section, name, value)
WHERE r.key = $1::text AND r.scope = $2::text AND f.value IS NOT NULL
ORDER BY f.rank, f.n
