-- Begins a request with a lease, for a client of the socket.
-- Caller: store/leased_requests.c. Index: requests_pkey.
-- $1 the parameters of request.begin (docs/handler-protocol.md). Back: the result as JSON.
SELECT jsonb_build_object(
           'verdict', b.verdict, 'token', b.token, 'attempt', b.attempt, 'point', b.point, 'status', b.status,
           'headers', b.headers, 'body', translate(encode(b.body, 'base64'), E'\n', ''),
           'retry_after_ms', ceil(extract(epoch FROM b.retry_after) * 1000),
           'expires_at', to_char(b.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text
FROM jsonb_to_record($1::jsonb) AS p(key text, fingerprint text, scope text, operation text, lease_ms double precision,
                                     keep_ms double precision, lost text),
     inbox.request_begin(p.key, decode(p.fingerprint, 'base64'), coalesce(p.scope, ''), coalesce(p.operation, ''),
                         p.lease_ms * interval '1 millisecond',
                         coalesce(p.keep_ms * interval '1 millisecond', '24 hours'), coalesce(p.lost, 'rerun')) b
