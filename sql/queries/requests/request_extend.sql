-- Extends a lease and sets the recovery point, for a client of the socket.
-- Caller: store/leased_requests.c. Index: requests_pkey.
-- $1 the parameters of request.extend (docs/handler-protocol.md). Back: the result as JSON.
SELECT '{}'
FROM jsonb_to_record($1::jsonb) AS p(token text, lease_ms double precision, point text),
     inbox.request_extend(p.token, p.lease_ms * interval '1 millisecond', p.point)
