-- Dead messages that fit a filter, grouped as in the view dead_groups: cells of a table, one JSON object each, and
-- the number of groups.
-- Caller: ops/list.c. Index: inbox_messages_state (inbox.look_page()), inbox_messages_seq_key.
-- $1 filter, $2 most groups.
SELECT g.messages::text, g.consumer, g.event_type, g.error_code,
       to_char(g.first_dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       to_char(g.last_dead_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       g.latest_seq::text, g.error_shape, row_to_json(g)::text, count(*) OVER ()
FROM (SELECT d.event_type, d.error_code, inbox.error_shape(d.error) AS error_shape, count(*) AS messages,
             min(d.dead_at) AS first_dead_at, max(d.dead_at) AS last_dead_at, max(d.seq) AS latest_seq, d.consumer
      FROM inbox.look_page(inbox.check_filter('list', $1::jsonb, ARRAY['dead']), 0, NULL) p
      CROSS JOIN LATERAL unnest(p.seqs) AS s(seq)
      CROSS JOIN LATERAL (SELECT m.seq, m.event_type, m.error_code, m.error, m.dead_at, m.consumer FROM inbox.inbox_messages m
                          WHERE m.seq = s.seq OFFSET 0) d
      GROUP BY d.event_type, d.error_code, error_shape, d.consumer) g
ORDER BY g.messages DESC, g.last_dead_at DESC
LIMIT $2::int
