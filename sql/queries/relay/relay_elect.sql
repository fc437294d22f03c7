-- Elects this instance to publish events, or renews its election: if it is elected already, if no instance is, or if the
-- elected one has ended or was not seen for half a minute. A sequence that was set back resets the floor.
-- Caller: store/outbox, every few seconds, and every second by instances that are not elected. Index: none (one row),
-- inbox_instances_pkey.
-- $1 own id, $2 the new floor of the one that is elected; -1 = elect this instance and keep the floor. Back: the floor,
-- the last number of the sequence, and the id of this transaction. No row: another instance is elected, or this one is
-- fenced; nothing is written then, and no lock is taken.
UPDATE inbox.outbox_relay r
SET instance = $1::int, seen_at = clock_timestamp(),
    floor = CASE WHEN coalesce(nullif($2::bigint, -1), r.floor)
                      > coalesce(pg_sequence_last_value('inbox.outbox_seq'::regclass), 0) THEN 0
                 ELSE coalesce(nullif($2::bigint, -1), r.floor) END
WHERE r.only_row
  AND (r.instance = $1::int
       OR $2::bigint = -1
          AND (r.instance IS NULL OR r.seen_at < clock_timestamp() - interval '30 seconds'
               OR NOT EXISTS (SELECT FROM inbox.inbox_instances o
                              WHERE o.id = r.instance AND o.fenced_at IS NULL AND o.stopped_at IS NULL)))
  AND EXISTS (SELECT FROM inbox.inbox_instances i WHERE i.id = $1::int AND i.fenced_at IS NULL)
RETURNING r.floor, coalesce(pg_sequence_last_value('inbox.outbox_seq'::regclass), 0),
          pg_current_xact_id()::text::bigint
