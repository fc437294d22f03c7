-- The stored response of a request, which only the owner of the schema may read.
-- Caller: ops/requests.c. Index: requests_pkey.
-- $1 key, $2 scope. Back: all of it as JSON (the body in base64), the headers as lines, the body, and as text if it is one.
SELECT (to_jsonb(s) || jsonb_build_object('headers', r.headers, 'body', translate(encode(r.body, 'base64'), E'\n', '')))::text,
       (SELECT string_agg('  ' || h.key || ': ' || h.value, E'\n') FROM jsonb_each_text(r.headers) h), r.body, inbox.try_text(r.body)
FROM inbox.requests r
JOIN inbox.request_states s ON s.key = r.key AND s.scope = r.scope
WHERE r.key = $1::text AND r.scope = $2::text
