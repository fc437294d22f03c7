-- A page of rejects, to which the current rules are applied. The first row has what identifies the rejects of this page and of those
-- before it (op_count).
-- Caller: ops/replay_rejects.c. Index: inbox_rejects_pkey.
-- $1 counted before (NULL = this is the first page), $2 after this seq, $3 up to this seq, $4 most rows, $5 bytes after which no
-- further row comes; the first row always comes, $6 only those that were counted. Headers as
-- bytes: for each two runs, the name and the value, each behind its length (int4, -1 = null). Rejects that could not be
-- kept completely are omitted, because their payload is missing.
-- Last: the generation of the record's log, which its time contains (array_coordinate_time()).
-- include: counted_begin
, page AS MATERIALIZED (
    SELECT s.seq, s.version, sum(s.size) OVER (ORDER BY s.seq) - s.size AS before
    FROM (
        SELECT i.seq, i.xmin::text AS version,
               coalesce(octet_length(i.payload), 0) + coalesce(octet_length(i.key), 0) + octet_length(i.headers::text) AS size
        FROM begun b
        JOIN inbox.inbox_rejects i ON inbox.is_counted(i.xmin, CASE WHEN $6::boolean THEN b.counted
                                                               ELSE jsonb_build_object('below', b.counted -> 'end') END)
        WHERE i.seq > $2::bigint AND i.seq <= $3::bigint AND strpos(i.reason, 'not kept whole: ') = 0
        ORDER BY i.seq
        LIMIT $4::int) s
)
SELECT r.seq, r.topic, r.kafka_partition, r.kafka_offset, r.kafka_timestamp, r.key, h.runs, r.payload,
       CASE WHEN r.seq = (SELECT min(p.seq) FROM page p) THEN
           (SELECT b.counted || jsonb_build_object('also', b.counted -> 'also' || (SELECT jsonb_object_agg(p.version, 1) FROM page p))
            FROM begun b) END,
       1 + coalesce(mod(extract(microseconds FROM r.kafka_timestamp)::int, 1000), 0)
FROM page p
JOIN inbox.inbox_rejects r ON r.seq = p.seq
CROSS JOIN LATERAL (
    SELECT string_agg(int4send(coalesce(octet_length(b.bytes), -1)) || coalesce(b.bytes, ''), '' ORDER BY p.n, i.n)
    FROM jsonb_array_elements(r.headers) WITH ORDINALITY AS p(pair, n)
    CROSS JOIN LATERAL jsonb_array_elements(p.pair) WITH ORDINALITY AS i(item, n)
    CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(i.item) WHEN 'string' THEN convert_to(i.item #>> '{}', 'UTF8')
                                    WHEN 'object' THEN decode(i.item ->> 'base64', 'base64') END) AS b(bytes)) h(runs)
WHERE p.before < $5::bigint
ORDER BY r.seq
