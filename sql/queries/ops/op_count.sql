-- How many messages fit a filter: of one page that a replay or discard would read, or (dropped) of those that a replay
-- omits because retention has dropped their payload. A retry counts those whose time has not come. Also the seq after which the next page
-- begins (NULL = there is none).
-- Caller: ops/replay.c. Index: what serves the status (inbox.look_page()).
-- $1 name for errors, $2 filter, $3 states it may name, $4 most rows, $5 behind this seq, $6 dropped.
SELECT cardinality(p.seqs), p.last_seq
FROM (SELECT inbox.check_filter($1::text, $2::jsonb, $3::text[])
             || CASE WHEN $6::boolean THEN '{"payload": "dropped"}' WHEN $1::text = 'replay' THEN '{"payload": "there"}'
                     WHEN $1::text = 'retry' THEN '{"due": "later"}' ELSE '{}' END::jsonb) AS g(filter)
CROSS JOIN LATERAL inbox.look_page(g.filter, $5::bigint, $4::int) p
