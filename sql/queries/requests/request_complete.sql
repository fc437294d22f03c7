-- Completes a request with a lease, for a client of the socket.
-- Caller: store/leased_requests.c. Index: requests_pkey; a HOT update.
-- $1 the parameters of request.complete (docs/handler-protocol.md). Back: the result as JSON.
SELECT '{}'
FROM jsonb_to_record($1::jsonb) AS p(token text, status numeric, body text, headers jsonb),
     inbox.request_complete(p.token, p.status::int, decode(p.body, 'base64'), p.headers)
