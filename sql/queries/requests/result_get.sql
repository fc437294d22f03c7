-- What became of a message, for a client of the socket.
-- Caller: store/leased_requests.c. Index: inbox_messages_pkey.
-- $1 the parameters of result.get (docs/handler-protocol.md). Back: the result as JSON.
SELECT jsonb_build_object(
           'status', r.status, 'result', r.result, 'error', r.error, 'error_code', r.error_code,
           'processed_at', to_char(r.processed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text
FROM jsonb_to_record($1::jsonb) AS p(source text, event_id text, consumer text)
LEFT JOIN LATERAL inbox.result(p.source, p.event_id, coalesce(p.consumer, '')) r ON true
