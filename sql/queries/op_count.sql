-- How many messages fit a filter after a seq, up to a number: what a replay or discard would look at.
-- Caller: admin/op_change.c. Index: what serves the filter (inbox.find_page()).
-- $1 name for errors, $2 filter, $3 states it may name, $4 most (NULL = all), $5 after this seq.
SELECT count(*) FROM inbox.find_page(inbox.check_filter($1::text, $2::jsonb, $3::text[]), $5::bigint, $4::int)
