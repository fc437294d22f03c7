-- Forgets a request.
-- Caller: ops/requests.c. Index: requests_pkey.
-- $1 scope, $2 key, $3 reason, $4 the request that was confirmed (op_requests_find). Back: whether it was there, had not changed, and
-- no transaction used it.
SELECT inbox.request_forget($1::text, $2::text, $3::text, $4::jsonb)
