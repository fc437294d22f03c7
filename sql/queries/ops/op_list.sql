-- A page of messages that fit a filter, as cells of a table and as one JSON object each. Each row also has the
-- number of rows that were read, and the seq after which nothing was read (NULL = nothing is there). One row without
-- cells if no message fits.
-- Caller: ops/list.c. Index: inbox_messages_seq_key, and what serves the status (inbox.look_page()).
-- $1 filter, $2 behind this seq, $3 most rows, $4 order (inbox.look_page()). `show` prints the payload.
SELECT m.seq::text, m.status, m.consumer, concat(m.topic, '/', m.kafka_partition, '/', m.kafka_offset), m.event_type, m.event_id,
       m.retry_count::text, to_char(m.received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(m.dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       t.error, row_to_json(m)::text, m.seq, p.looked, p.last_seq
FROM inbox.look_page(inbox.check_filter('list', $1::jsonb,
         ARRAY['any', 'waiting', 'retrying', 'parked', 'claimed', 'processed', 'dead', 'discarded'])
         || jsonb_build_object('order', $4::text), $2::bigint, $3::int) p
LEFT JOIN LATERAL unnest(p.seqs) WITH ORDINALITY AS s(seq, n) ON true
LEFT JOIN LATERAL (
    SELECT v.seq, v.source, v.event_id, v.event_type, v.status, v.topic, v.kafka_partition, v.kafka_offset,
           v.kafka_timestamp, v.key, v.headers, v.received_at, v.available_at, v.claimed_by, v.delivery_count,
           v.retry_count, v.crash_count, v.replay_count, v.suspect, v.error, v.error_code, v.result, v.attempts,
           v.processed_at, v.dead_at, v.handler, v.consumer
    FROM inbox.messages v WHERE v.seq = s.seq OFFSET 0) m ON true
CROSS JOIN LATERAL (
    SELECT CASE WHEN starts_with(m.error, m.error_code || ': ') THEN m.error ELSE concat_ws(': ', m.error_code, m.error) END
        AS error) t
ORDER BY s.n
