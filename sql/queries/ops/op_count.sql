-- How many messages fit a filter: of one page that a replay or discard would read, or (dropped) of those that a replay
-- omits because retention has dropped their payload. A retry counts those whose time has not come. Also the seq after which the next page
-- begins (NULL = there is none), and what identifies all messages that were counted so far, for inbox.is_counted(). The count
-- leaves out rows that a transaction changed if it began after the first page.
-- Caller: ops/replay.c. Index: what serves the status (inbox.look_page()).
-- $1 counted before (NULL = this is the first page), $2 name for errors, $3 filter, $4 states it may name, $5 most rows, $6 behind
-- this seq, $7 dropped.
-- include: counted_begin
SELECT cardinality(p.seqs), p.last_seq,
       b.counted || jsonb_build_object(
           'last', coalesce(p.seqs[cardinality(p.seqs)], (b.counted ->> 'last')::bigint),
           'also', b.counted -> 'also' || (
               SELECT coalesce(jsonb_object_agg(v.version, 1), '{}')
               FROM (SELECT DISTINCT m.xmin::text AS version FROM inbox.inbox_messages m
                     WHERE m.seq = ANY (p.seqs) AND NOT inbox.is_counted(m.xmin, b.counted)) v))
FROM begun b
CROSS JOIN LATERAL (
    SELECT inbox.check_filter($2::text, $3::jsonb, $4::text[])
           || CASE WHEN $7::boolean THEN '{"payload": "dropped"}' WHEN $2::text = 'replay' THEN '{"payload": "there"}'
                   WHEN $2::text = 'retry' THEN '{"due": "later"}' ELSE '{}' END::jsonb
           || jsonb_build_object('counted', jsonb_build_object('below', b.counted -> 'end'))
    OFFSET 0) AS g(filter)
CROSS JOIN LATERAL inbox.look_page(g.filter, $6::bigint, $5::int) p
