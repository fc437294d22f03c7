-- The next dead messages for the dead topic after a position, in the order they died, with all columns that are
-- produced.
-- Caller: store/periodic/dead_messages.c. Index: inbox_messages_dead_topic, inbox_messages_dead or inbox_messages_seq_key.
-- $1 most rows, $2 bytes after which no further row comes, $3 seqs to leave out, $4 and $5 the position, see dead_backlog.
-- Headers as bytes: for each two runs, the name and the value, each behind its length (int4, -1 = null). A time is in
-- microseconds where it has to be exact.
WITH page AS MATERIALIZED (
    SELECT m.seq, m.dead_at, coalesce(octet_length(m.payload), 0) + coalesce(octet_length(m.key), 0)
                             + octet_length(m.headers::text) AS size
    FROM inbox.inbox_messages m
    WHERE m.dead_at IS NOT NULL AND m.claimed_by IS NOT NULL AND m.dead_topic_at IS DISTINCT FROM m.dead_at
      AND m.seq <> ALL ($3::bigint[])
      AND (m.dead_at, m.seq) > (coalesce(timestamptz 'epoch' + nullif($4::bigint, 0) * interval '1 microsecond',
                                         '-infinity'), $5::bigint)
      AND m.dead_at > '-infinity' AND m.dead_at < 'infinity'
    ORDER BY m.dead_at NULLS FIRST, m.seq
    LIMIT $1::int
), fitting AS MATERIALIZED (
    SELECT s.seq, s.dead_at
    FROM (SELECT p.seq, p.dead_at, sum(p.size) OVER (ORDER BY p.dead_at, p.seq) - p.size AS before FROM page p) s
    WHERE s.before < $2::bigint
)
SELECT m.seq, (extract(epoch FROM m.dead_at) * 1000000)::bigint, m.dead_at, m.source, m.event_id, m.event_type, m.topic,
       m.kafka_partition, m.kafka_offset, m.kafka_timestamp, m.error_code, left(m.error, 1000), m.retry_count,
       m.crash_count, m.key, h.runs, m.payload, m.payload IS NULL AND m.payload_digest IS NOT NULL,
       nullif(m.consumer, '')
FROM fitting f
JOIN inbox.inbox_messages m ON m.seq = f.seq AND m.dead_at = f.dead_at
CROSS JOIN LATERAL (
    SELECT string_agg(int4send(coalesce(octet_length(b.bytes), -1)) || coalesce(b.bytes, ''), '' ORDER BY p.n, i.n)
    FROM jsonb_array_elements(m.headers) WITH ORDINALITY AS p(pair, n)
    CROSS JOIN LATERAL jsonb_array_elements(p.pair) WITH ORDINALITY AS i(item, n)
    CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(i.item) WHEN 'string' THEN convert_to(i.item #>> '{}', 'UTF8')
                                    WHEN 'object' THEN decode(i.item ->> 'base64', 'base64') END) AS b(bytes)) h(runs)
ORDER BY f.dead_at, f.seq
