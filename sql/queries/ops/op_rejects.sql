-- A page of rejects, to which the current rules are applied.
-- Caller: ops/replay_rejects.c. Index: inbox_rejects_pkey.
-- $1 after this seq, $2 most rows, $3 bytes after which no further row comes; the first row always comes. Headers as
-- bytes: for each two runs, the name and the value, each behind its length (int4, -1 = null). Rejects that could not be
-- kept completely are omitted, because their payload is missing.
SELECT r.seq, r.topic, r.kafka_partition, r.kafka_offset, r.kafka_timestamp, r.key, h.runs, r.payload
FROM (
    SELECT s.*, sum(s.size) OVER (ORDER BY s.seq) - s.size AS before
    FROM (
        SELECT i.*, coalesce(octet_length(i.payload), 0) + coalesce(octet_length(i.key), 0)
                    + octet_length(i.headers::text) AS size
        FROM inbox.inbox_rejects i
        WHERE i.seq > $1::bigint AND strpos(i.reason, 'not kept whole: ') = 0
        ORDER BY i.seq
        LIMIT $2::int) s) r
CROSS JOIN LATERAL (
    SELECT string_agg(int4send(coalesce(octet_length(b.bytes), -1)) || coalesce(b.bytes, ''), '' ORDER BY p.n, i.n)
    FROM jsonb_array_elements(r.headers) WITH ORDINALITY AS p(pair, n)
    CROSS JOIN LATERAL jsonb_array_elements(p.pair) WITH ORDINALITY AS i(item, n)
    CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(i.item) WHEN 'string' THEN convert_to(i.item #>> '{}', 'UTF8')
                                    WHEN 'object' THEN decode(i.item ->> 'base64', 'base64') END) AS b(bytes)) h(runs)
WHERE r.before < $3::bigint
ORDER BY r.seq
