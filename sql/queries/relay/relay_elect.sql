-- Elects this instance to publish events, or renews its election: if it is elected already, if no instance is, or if the
-- elected one has ended or was not seen for half a minute. A sequence that was set back resets the floor.
-- Caller: store/outbox, at the start and while idle. Index: none (one row), inbox_instances_pkey.
-- $1 own id. Back: the floor, and the last number of the sequence. No row: another instance is elected, or this one is
-- fenced.
INSERT INTO inbox.outbox_relay AS r (instance)
SELECT i.id FROM inbox.inbox_instances i WHERE i.id = $1::int AND i.fenced_at IS NULL
ON CONFLICT (only_row) DO UPDATE
SET instance = excluded.instance, seen_at = clock_timestamp(),
    floor = CASE WHEN r.floor > coalesce(pg_sequence_last_value('inbox.outbox_seq'::regclass), 0) THEN 0
                 ELSE r.floor END
WHERE r.instance IS NULL OR r.instance = excluded.instance OR r.seen_at < clock_timestamp() - interval '30 seconds'
   OR NOT EXISTS (SELECT FROM inbox.inbox_instances o
                  WHERE o.id = r.instance AND o.fenced_at IS NULL AND o.stopped_at IS NULL)
RETURNING r.floor, coalesce(pg_sequence_last_value('inbox.outbox_seq'::regclass), 0)
