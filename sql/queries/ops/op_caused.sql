-- The trace of a message, or of the events of a request with a key, and the events that it has caused: section, name, value, and in each row
-- the same as members of a JSON object.
-- Caller: ops/show.c. Index: inbox_messages_seq_key, requests_pkey, outbox_pkey (inbox.caused_events()).
-- $1 seq of the message (NULL = a request), $2 scope, $3 key.
WITH m AS MATERIALIZED (
    SELECT m.seq, m.source, m.event_id, m.headers, m.received_at, m.processed_at, m.dead_at, m.attempts
    FROM inbox.inbox_messages m WHERE m.seq = $1::text::bigint
), caused AS MATERIALIZED (
    -- The events of a message were emitted after it was received, most of them when it was completed.
    SELECT e.seqs, e.complete, s.is_over
    FROM (SELECT ARRAY[m.received_at, m.processed_at, m.dead_at] || ARRAY(
                     SELECT (a.entry ->> 'ended_at')::timestamptz FROM jsonb_array_elements(m.attempts) WITH ORDINALITY AS a(entry, n)
                     WHERE a.entry ? 'ended_at' ORDER BY a.n DESC LIMIT 3) AS times,
                 m.processed_at IS NOT NULL AND (EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.floor > 0)
                                                 OR EXISTS (SELECT FROM inbox.outbox)) AS is_over
          FROM m
          UNION ALL
          SELECT ARRAY[r.created_at], r.state = 'COMPLETED' FROM inbox.request_states r WHERE r.scope = $2::text AND r.key = $3::text) s
    CROSS JOIN LATERAL inbox.caused_events($1::text::bigint, $2::text, $3::text, s.times) e
), events AS MATERIALIZED (
    SELECT s.n, v.seq, v.event_id, v.topic, v.aggregate, v.event_type, v.status, v.created_at,
           substring(jsonb_path_query_first(v.headers, 'strict $[*] ? (@[0] == "traceparent")[1]', '{}', true) #>> '{}' FROM '^[0-9a-f]{2}-([0-9a-f]{32})-') AS trace
    FROM caused c CROSS JOIN LATERAL unnest(c.seqs) WITH ORDINALITY AS s(seq, n)
    CROSS JOIN LATERAL (SELECT v.* FROM inbox.events v WHERE v.seq = s.seq OFFSET 0) v
), trace AS MATERIALIZED (
    SELECT coalesce((SELECT inbox.trace_of(m.seq, m.headers) FROM m), (SELECT e.trace FROM events e WHERE e.trace IS NOT NULL ORDER BY e.n LIMIT 1))
               AS trace
)
SELECT f.section, f.name, f.value, concat('"trace":', coalesce((SELECT to_json(t.trace)::text FROM trace t), 'null'), ',"caused":', (
           SELECT coalesce(json_agg(json_build_object('seq', e.seq, 'event_id', e.event_id, 'topic', e.topic, 'aggregate', e.aggregate,
               'event_type', e.event_type, 'status', e.status, 'created_at', e.created_at) ORDER BY e.n), '[]')::text FROM events e),
           ',"all_caused":', to_json(c.complete))
FROM caused c
LEFT JOIN LATERAL (
    SELECT 1, 0, 'trace', 'id', t.trace FROM trace t
    UNION ALL
    SELECT 2, e.n, 'events that it has caused', coalesce(e.topic, '{' || e.aggregate || '}'),
           concat(e.event_type, ' ', e.event_id, ', ', e.status, ' (seq ', e.seq, ' of the outbox)')
    FROM events e WHERE e.n <= 100
    UNION ALL
    SELECT 3, v.n, 'events that it has caused', v.name, v.value
    FROM (VALUES (1, 'not shown', CASE WHEN cardinality(c.seqs) > 100 THEN concat(cardinality(c.seqs) - 100, ' further ones') END),
                 (2, 'not searched', CASE WHEN NOT c.complete THEN 'events behind 100000 others: `inboxd outbox list` finds '
                                          'them by their trace' END),
                 (3, 'none', CASE WHEN c.seqs = '{}' AND c.complete AND c.is_over THEN 'none is in the outbox: published ones are '
                                  'deleted, unless retention.outbox keeps them' END)) AS v(n, name, value)
) AS f(rank, n, section, name, value) ON f.value IS NOT NULL
ORDER BY f.rank, f.n
