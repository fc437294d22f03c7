-- How many events of one page fit a filter; the columns and parameters as in op_count.
-- Caller: ops/replay.c. Index: outbox_pkey (inbox.outbox_page()).
-- $1 counted before, $2 name for errors, $3 filter, $4 states it may name, $5 most rows, $6 behind this seq, $7 false.
-- include: counted_begin
SELECT cardinality(p.seqs), p.last_seq,
       b.counted || jsonb_build_object(
           'last', coalesce(p.seqs[cardinality(p.seqs)], (b.counted ->> 'last')::bigint),
           'also', b.counted -> 'also' || (
               SELECT coalesce(jsonb_object_agg(v.version, 1), '{}')
               FROM (SELECT DISTINCT o.xmin::text AS version FROM inbox.outbox o
                     WHERE o.seq = ANY (p.seqs) AND NOT inbox.is_counted(o.xmin, b.counted)) v))
FROM begun b
CROSS JOIN LATERAL inbox.outbox_page(
    inbox.check_outbox_filter($2::text, $3::jsonb, $4::text[])
    || jsonb_build_object('counted', jsonb_build_object('below', b.counted -> 'end')), $6::bigint, $5::int) p
WHERE NOT $7::boolean
