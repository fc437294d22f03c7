-- A page of conflicts that fit a filter, as cells of a table and as one JSON object each.
-- Caller: ops/list.c. Index: inbox_conflicts_pkey.
-- $1 filter (topic, key, received_from, received_to), $2 after this seq, $3 most rows. Of the payload its length.
SELECT c.seq::text, concat(c.topic, '/', c.kafka_partition, '/', c.kafka_offset), c.source, c.event_id,
       c.payload_bytes::text, to_char(c.received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       row_to_json(c)::text, c.seq
FROM (SELECT inbox.check_filter('list', $1::jsonb || '{"status": "any"}', '{any}') AS filter OFFSET 0) f
CROSS JOIN LATERAL (
    SELECT c.seq, c.source, c.event_id, c.topic, c.kafka_partition, c.kafka_offset, c.kafka_timestamp, c.key, c.headers,
           octet_length(c.payload) AS payload_bytes, c.payload_digest, c.received_at
    FROM inbox.inbox_conflicts c
    WHERE c.seq > $2::bigint
        AND ($1::jsonb ->> 'topic' IS NULL OR c.topic = $1::jsonb ->> 'topic')
        AND ($1::jsonb ->> 'key' IS NULL OR c.key = convert_to($1::jsonb ->> 'key', 'UTF8'))
        AND (f.filter ->> 'received_from' IS NULL OR c.received_at >= (f.filter ->> 'received_from')::timestamptz)
        AND (f.filter ->> 'received_to' IS NULL OR c.received_at < (f.filter ->> 'received_to')::timestamptz)
    ORDER BY c.seq LIMIT $3::int) c
ORDER BY c.seq
