-- What is dead of the same: cells of a table, and one JSON object each.
-- Caller: admin/op_list.c. Index: inbox_messages_dead.
-- $1 most groups.
SELECT g.messages::text, g.event_type, g.error_code, g.error_shape,
       to_char(g.first_dead_at, 'YYYY-MM-DD HH24:MI:SS'), to_char(g.last_dead_at, 'YYYY-MM-DD HH24:MI:SS'),
       g.latest_seq::text, row_to_json(g)::text
FROM inbox.dead_groups g
ORDER BY g.messages DESC, g.last_dead_at DESC
LIMIT $1::int
