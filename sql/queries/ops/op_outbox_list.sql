-- A page of events of the outbox that fit a filter; the columns as in op_list.
-- Caller: ops/list.c. Index: outbox_pkey (inbox.outbox_page()).
-- $1 filter, $2 behind this seq, $3 most rows. `outbox show` prints the payload.
SELECT e.seq::text, e.status, coalesce(e.topic, '{' || e.aggregate || '}'),
       coalesce(inbox.try_text(e.key), E'\\x' || encode(e.key, 'hex')), e.event_type, e.event_id,
       to_char(e.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       concat_ws(': ', e.error_code, e.error), row_to_json(e)::text, e.seq, p.looked, p.last_seq
FROM inbox.outbox_page(inbox.check_outbox_filter('list', $1::jsonb,
         ARRAY['any', 'waiting', 'retrying', 'parked', 'published', 'dead', 'discarded']), $2::bigint, $3::int) p
LEFT JOIN LATERAL unnest(p.seqs) WITH ORDINALITY AS s(seq, n) ON true
LEFT JOIN LATERAL (
    SELECT v.seq, v.event_id, v.status, v.topic, v.aggregate, v.key, v.event_type, v.source, v.subject, v.content_type,
           v.format, v.headers, v.caused_by, v.created_at, v.available_at, v.retry_count, v.error, v.error_code,
           v.published_at, v.kafka_partition, v.kafka_offset, v.dead_at, v.request_scope, v.request_key
    FROM inbox.events v WHERE v.seq = s.seq OFFSET 0) e ON true
ORDER BY s.n
