-- Begins a page of events for the relay; relay_page_end ends it. Between them is a query of the rows, all columns of
-- the outbox and whether the row is to be published (fresh), in their order. A row that is not fresh comes without its
-- payload, because only its number matters.
-- Columns: seq, fresh, bytes, event_id, source, topic, aggregate, key, event_type, subject, content_type, format, header
-- runs, payload, created_at, retry_count, caused_by. bytes: of the page up to this row; the page was cut if that is $2 or
-- more in its last row. They are those that are sent, because PostgreSQL may have compressed the row; the columns that emit
-- limits to 1 KiB are not counted. Header runs: name and value of each header, each behind its length (int4, -1 = null).
SELECT o.seq, o.fresh, o.bytes, o.event_id, o.source, o.topic, o.aggregate, o.key, o.event_type, o.subject,
       o.content_type, o.format,
       CASE WHEN o.fresh AND o.headers <> '[]' THEN (
           SELECT string_agg(int4send(coalesce(octet_length(b.bytes), -1)) || coalesce(b.bytes, ''), '' ORDER BY p.n, i.n)
           FROM jsonb_array_elements(o.headers) WITH ORDINALITY AS p(pair, n)
           CROSS JOIN LATERAL jsonb_array_elements(p.pair) WITH ORDINALITY AS i(item, n)
           CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(i.item)
               WHEN 'string' THEN convert_to(i.item #>> '{}', 'UTF8')
               WHEN 'object' THEN decode(i.item ->> 'base64', 'base64') END) AS b(bytes)) END AS runs,
       CASE WHEN o.fresh THEN o.payload END AS payload, o.created_at, o.retry_count, o.caused_by
FROM (
    SELECT s.*, sum(s.size) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
    FROM (
        SELECT r.*, CASE WHEN r.fresh THEN coalesce(octet_length(r.payload), 0) + coalesce(octet_length(r.key), 0)
                                           + octet_length(r.headers::text) ELSE 0 END AS size
        FROM (
