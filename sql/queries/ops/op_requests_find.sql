-- The requests with a key.
-- Caller: ops/requests.c. Index: requests_pkey.
-- $1 key, $2 scope (NULL = any). Back: scope, the row as JSON, operation, state, whether it is lost.
SELECT r.scope, row_to_json(r)::text, r.operation, r.state, r.lost
FROM inbox.request_states r
WHERE r.key = $1::text AND ($2::text IS NULL OR r.scope = $2::text)
ORDER BY r.scope
LIMIT 20
