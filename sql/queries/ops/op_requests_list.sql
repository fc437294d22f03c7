-- A page of requests with a key, those that expire last first: the cells, and the row as JSON. Reads at most 100,000 rows.
-- Caller: ops/requests.c. Index: requests_expires; for a state other than completed, requests_leased.
-- $1 scope (NULL = any), $2 state or lost, in lower case (NULL = any), $3 most rows.
SELECT r.scope, r.key, r.operation, CASE WHEN r.lost THEN 'PENDING, lost' ELSE r.state END, r.attempt::text, r.status::text,
       to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(r.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       r.error, row_to_json(r)::text
FROM (
    (SELECT s.* FROM inbox.request_states s
     WHERE coalesce($2::text, 'completed') = 'completed' ORDER BY s.expires_at DESC LIMIT 100000)
    UNION ALL
    (SELECT s.* FROM inbox.request_states s
     WHERE $2::text <> 'completed' AND s.leased ORDER BY s.expires_at DESC LIMIT 100000)
) r
WHERE ($1::text IS NULL OR r.scope = $1::text)
  AND CASE $2::text WHEN 'lost' THEN r.lost ELSE coalesce(r.state = upper($2::text), true) END
ORDER BY r.expires_at DESC
LIMIT $3::int
