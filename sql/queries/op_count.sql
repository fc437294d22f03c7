-- How many messages fit a filter after a seq, up to a number: what a replay or discard would look at. And how many
-- fit that a replay leaves out, for retention has dropped their payload.
-- Caller: admin/op_change.c. Index: what serves the filter (inbox.find_page()).
-- $1 name for errors, $2 filter, $3 states it may name, $4 most (NULL = all), $5 after this seq.
WITH given AS MATERIALIZED (
    SELECT inbox.check_filter($1::text, $2::jsonb, $3::text[]) AS filter
)
SELECT (SELECT count(*) FROM inbox.find_page(
            g.filter || CASE $1::text WHEN 'replay' THEN '{"payload": "there"}' ELSE '{}' END::jsonb,
            $5::bigint, $4::int)),
       CASE $1::text WHEN 'replay'
            THEN (SELECT count(*) FROM inbox.find_page(g.filter || '{"payload": "dropped"}', $5::bigint, 2147483647))
            ELSE 0 END
FROM given g
