-- Ends an attempt of a request with a lease, for a client of the socket.
-- Caller: store/leased_requests.c. Index: requests_pkey.
-- $1 the parameters of request.fail (docs/handler-protocol.md). Back: the result as JSON.
SELECT '{}'
FROM jsonb_to_record($1::jsonb) AS p(token text, reason text),
     inbox.request_fail(p.token, p.reason)
