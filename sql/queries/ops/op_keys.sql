-- A page of blocked keys, as cells of a table and as one JSON object each. Each row also has the number of keys that were
-- read, and the message after whose key nothing was read (NULL = nothing is there). One row without cells if no key is
-- blocked.
-- Caller: ops/list.c. Index: inbox_messages_by_key, inbox_messages_by_offset (inbox.look_keys()).
-- $1 filter, $2 after the key of this message, $3 most rows.
SELECT k.consumer, k.topic, k.kafka_partition::text, coalesce(k.key_text, E'\\x' || encode(k.key, 'hex')),
       k.waiting::text || CASE WHEN k.waiting = 10000 THEN ' or more' ELSE '' END,
       to_char(k.since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), k.event_id, k.status,
       to_char(k.next_attempt AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       w.words, row_to_json(k)::text, k.seq, p.looked, p.last_seq
FROM inbox.look_keys(inbox.check_keys($1::jsonb), $2::bigint, $3::int) p
LEFT JOIN LATERAL unnest(p.seqs) WITH ORDINALITY AS s(seq, n) ON true
LEFT JOIN LATERAL inbox.describe_key(s.seq) k ON s.seq IS NOT NULL
LEFT JOIN LATERAL (
    SELECT coalesce(nullif(concat_ws(': ', k.error_code, k.error), ''), 'waits for the handler ' || k.handler,
                    CASE k.status WHEN 'parked' THEN 'waits for a handler' END) AS words) w ON k.seq IS NOT NULL
ORDER BY s.n
