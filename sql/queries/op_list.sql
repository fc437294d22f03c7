-- A page of messages that fit a filter, as cells of a table and as one JSON object each.
-- Caller: admin/op_list.c. Index: inbox_messages_seq_key, and what serves the filter (inbox.find_page()).
-- $1 filter, $2 after this seq, $3 most rows. The payload is what `show` is for. Tries are the failed attempts
-- since the last replay: an answer of dead spends none, and is one.
SELECT m.seq::text, m.status, concat(m.topic, '/', m.kafka_partition, '/', m.kafka_offset), m.event_type, m.event_id,
       greatest(m.retry_count, (m.attempts -> -1 ->> 'attempt')::int)::text, to_char(m.received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       CASE WHEN length(concat_ws(': ', m.error_code, m.error)) > 60
            THEN left(concat_ws(': ', m.error_code, m.error), 59) || '…' ELSE concat_ws(': ', m.error_code, m.error) END,
       row_to_json(m)::text, m.seq
FROM (SELECT v.seq, v.source, v.event_id, v.event_type, v.status, v.topic, v.kafka_partition, v.kafka_offset,
             v.kafka_timestamp, v.key, v.headers, v.received_at, v.available_at, v.claimed_by, v.delivery_count,
             v.retry_count, v.crash_count, v.replay_count, v.suspect, v.error, v.error_code, v.result, v.attempts,
             v.processed_at, v.dead_at
      FROM inbox.messages v) m
WHERE m.seq = ANY (ARRAY(
    SELECT inbox.find_page(inbox.check_filter('list', $1::jsonb,
        ARRAY['any', 'waiting', 'retrying', 'parked', 'claimed', 'processed', 'dead']), $2::bigint, $3::int)))
ORDER BY m.seq
