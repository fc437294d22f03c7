-- What is dead of the same, as the view dead_groups has it, of the messages that fit a filter: cells of a table, and
-- one JSON object each, and how many groups there are in all.
-- Caller: admin/op_list.c. Index: inbox_messages_dead, inbox_messages_seq_key.
-- $1 filter, $2 most groups.
SELECT g.messages::text, g.event_type, g.error_code, g.error_shape,
       to_char(g.first_dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(g.last_dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       g.latest_seq::text, row_to_json(g)::text, count(*) OVER ()
FROM (SELECT m.event_type, m.error_code, inbox.error_shape(m.error) AS error_shape, count(*) AS messages,
             min(m.dead_at) AS first_dead_at, max(m.dead_at) AS last_dead_at, max(m.seq) AS latest_seq
      FROM inbox.inbox_messages m
      WHERE m.seq IN (SELECT inbox.find_page(inbox.check_filter('list', $1::jsonb, ARRAY['dead']), 0, 2147483647))
        AND m.dead_at IS NOT NULL
      GROUP BY 1, 2, 3) g
ORDER BY g.messages DESC, g.last_dead_at DESC
LIMIT $2::int
