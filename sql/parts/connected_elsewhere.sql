-- Whether a live member of the group, which has not left it, has the handler h.entry connected. An entry is as in
-- inbox_instances.handlers. Included by find_needed_handlers and check_missing_handlers. Index: inbox_instances_pkey
-- (small table). $1 own id, $2 lease in ms.
EXISTS (SELECT FROM inbox.inbox_instances o
        WHERE o.id <> $1::int AND o.fenced_at IS NULL AND o.away_at IS NULL
          AND o.heartbeat_at > clock_timestamp() - $2::bigint * interval '1 millisecond'
          AND o.handlers @> jsonb_build_array(h.entry))
AND NOT EXISTS (SELECT FROM inbox.inbox_instances me WHERE me.id = $1::int AND me.handlers @> jsonb_build_array(h.entry))
