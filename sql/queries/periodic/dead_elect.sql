-- Elects this instance to produce to the dead topic: if it is elected already, if no instance is, or if the elected
-- one has ended or was not seen for half a minute. No row: another instance is elected, or this one is fenced.
-- Caller: store/periodic/dead_messages.c, before each batch. Index: none (one row), inbox_instances_pkey.
-- $1 own id.
INSERT INTO inbox.inbox_dead_topic AS d (instance)
SELECT i.id FROM inbox.inbox_instances i WHERE i.id = $1::int AND i.fenced_at IS NULL
ON CONFLICT (only_row) DO UPDATE SET instance = excluded.instance, seen_at = clock_timestamp()
WHERE d.instance IS NULL OR d.instance = excluded.instance OR d.seen_at < clock_timestamp() - interval '30 seconds'
   OR NOT EXISTS (SELECT FROM inbox.inbox_instances o
                  WHERE o.id = d.instance AND o.fenced_at IS NULL AND o.stopped_at IS NULL)
RETURNING true
