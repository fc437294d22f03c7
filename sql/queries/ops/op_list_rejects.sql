-- A page of rejects that fit a filter, as cells of a table and as one JSON object each.
-- Caller: ops/list.c. Index: inbox_rejects_pkey.
-- $1 filter (topic, key, received_from, received_to, error_like: of the reason), $2 after this seq, $3 most rows. Of the
-- payload its length.
SELECT r.seq::text, concat(r.topic, '/', r.kafka_partition, '/', r.kafka_offset), r.payload_bytes::text,
       to_char(r.received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       r.reason, row_to_json(r)::text, r.seq
FROM (SELECT inbox.check_filter('list', $1::jsonb || '{"status": "any"}', '{any}') AS filter OFFSET 0) f
CROSS JOIN LATERAL (
    SELECT r.seq, r.topic, r.kafka_partition, r.kafka_offset, r.kafka_timestamp, r.key, r.headers,
           octet_length(r.payload) AS payload_bytes, r.reason, r.received_at
    FROM inbox.inbox_rejects r
    WHERE r.seq > $2::bigint
        AND ($1::jsonb ->> 'topic' IS NULL OR r.topic = $1::jsonb ->> 'topic')
        AND ($1::jsonb ->> 'key' IS NULL OR r.key = convert_to($1::jsonb ->> 'key', 'UTF8'))
        AND (f.filter ->> 'received_from' IS NULL OR r.received_at >= (f.filter ->> 'received_from')::timestamptz)
        AND (f.filter ->> 'received_to' IS NULL OR r.received_at < (f.filter ->> 'received_to')::timestamptz)
        AND ($1::jsonb ->> 'error_like' IS NULL OR r.reason LIKE $1::jsonb ->> 'error_like')
    ORDER BY r.seq LIMIT $3::int) r
ORDER BY r.seq
