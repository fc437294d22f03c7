-- The other running sidecars that are the same static member of the consumer group. One with the same socket cannot run.
-- Caller: store/leases/instance.c, after the brokers have refused the id. Index: inbox_instances_pkey (small table).
-- $1 own id. Back: their names, at most three; NULL: there is none.
SELECT string_agg(found.name, ', ' ORDER BY found.name)
FROM (SELECT DISTINCT o.name
      FROM inbox.inbox_instances me
      JOIN inbox.inbox_instances o ON o.group_instance_id = me.group_instance_id
      WHERE me.id = $1::int AND o.id <> me.id AND o.fenced_at IS NULL AND o.stopped_at IS NULL
        AND (o.host_id <> me.host_id OR o.host_id IS NULL OR me.host_id IS NULL)
      ORDER BY o.name LIMIT 3) found
