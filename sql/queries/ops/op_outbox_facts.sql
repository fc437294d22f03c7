-- An event as cells: section, name, value. Empty values are left out.
-- Caller: ops/show.c. Index: outbox_pkey, inbox_messages_seq_key.
-- $1 seq.
SELECT f.section, f.name, f.value
FROM (SELECT v.*, inbox.try_text(v.key) AS key_text FROM inbox.events v WHERE v.seq = $1::bigint) e
LEFT JOIN LATERAL (
    SELECT concat(': ', m.event_type, ' ', m.event_id, ' from ', m.source, ' (', m.topic, '/', m.kafka_partition, '/', m.kafka_offset, ')') AS words
    FROM inbox.inbox_messages m WHERE m.seq = e.caused_by OFFSET 0) c ON true
CROSS JOIN LATERAL (
    SELECT 1, v.n, 'event', v.name, v.value
    FROM (VALUES (1, 'event id', e.event_id), (2, 'source', e.source), (3, 'type', e.event_type), (4, 'status', e.status),
                 (5, 'topic', e.topic), (6, 'aggregate', e.aggregate),
                 (7, 'key', coalesce(e.key_text, E'\\x' || encode(e.key, 'hex'))), (8, 'seq', e.seq::text),
                 (9, 'subject', e.subject), (10, 'content type', e.content_type), (11, 'format', e.format),
                 (12, 'caused by the message with seq', e.caused_by || coalesce(c.words, ', which was deleted')),
                 (12, 'caused by the request with the key', e.request_key || coalesce(' of the scope ' || nullif(e.request_scope, ''), '')), (13, 'error', e.error), (14, 'code', e.error_code),
                 (15, 'attempts spent', e.retry_count::text),
                 (16, 'record', CASE WHEN e.kafka_offset IS NOT NULL
                                     THEN concat_ws('/', e.topic, e.kafka_partition, e.kafka_offset) END)) AS v(n, name, value)
    UNION ALL
    SELECT 2, h.n, 'headers', coalesce(h.pair ->> 0, '-'), coalesce(h.pair ->> 1, 'null')
    FROM jsonb_array_elements(e.headers) WITH ORDINALITY AS h(pair, n)
    UNION ALL
    SELECT 3, t.n, 'timeline', to_char(t.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), t.words
    FROM (VALUES (1, e.created_at, 'emitted'), (2, e.published_at, 'published'), (3, e.dead_at, 'dead'),
                 (4, nullif(e.available_at, 'infinity'), 'due')) AS t(n, at, words)
    WHERE t.at IS NOT NULL
) AS f(rank, n, section, name, value)
WHERE f.value IS NOT NULL
ORDER BY f.rank, f.n
