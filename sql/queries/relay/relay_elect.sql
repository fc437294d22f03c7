-- Elects this instance to publish events, or renews its election: if it is elected already, if no instance is, or if the
-- elected one has ended or was not seen for half a minute. A sequence that was set back resets the position. If somebody has
-- deleted the row of the table, a new one is there for the next try.
-- Caller: store/outbox, every few seconds, and every second by instances that are not elected. Index: none (one row),
-- inbox_instances_pkey.
-- $1 own id; the new position of the one that is elected: $2 the floor, -1 = elect this instance and keep the position, $3 the
-- tip, $4 and $5 first and last seq of each hole. Back: the floor, the last number of the sequence, the id of this transaction,
-- the tip, and after an election first and last seq of a hole, with a row for each. No row: another instance is elected, or this
-- one is fenced; nothing is written then, and no lock is taken.
WITH made AS (
    INSERT INTO inbox.outbox_relay (instance)
    SELECT NULL WHERE NOT EXISTS (SELECT FROM inbox.outbox_relay)
    ON CONFLICT DO NOTHING
), elected AS (
    UPDATE inbox.outbox_relay r
    SET instance = $1::int, seen_at = clock_timestamp(),
        (floor, tip, hole_first, hole_last) = (
            SELECT CASE WHEN b.behind THEN 0 ELSE p.floor END, CASE WHEN b.behind THEN 0 ELSE p.tip END,
                   CASE WHEN b.behind THEN '{}' ELSE p.hole_first END, CASE WHEN b.behind THEN '{}' ELSE p.hole_last END
            FROM (SELECT $2::bigint AS floor, $3::bigint AS tip, $4::bigint[] AS hole_first, $5::bigint[] AS hole_last
                  WHERE $2::bigint <> -1
                  UNION ALL
                  SELECT r.floor, k.tip, k.hole_first, k.hole_last
                  FROM inbox.relay_position(r.floor, r.tip, r.hole_first, r.hole_last) k WHERE $2::bigint = -1) p
            CROSS JOIN LATERAL (SELECT greatest(p.floor, p.tip)
                                       > coalesce(pg_sequence_last_value('inbox.outbox_seq'::regclass), 0)) b(behind))
    WHERE r.only_row
      AND (r.instance = $1::int
           OR $2::bigint = -1
              AND (r.instance IS NULL OR r.seen_at < clock_timestamp() - interval '30 seconds'
                   OR NOT EXISTS (SELECT FROM inbox.inbox_instances o
                                  WHERE o.id = r.instance AND o.fenced_at IS NULL AND o.stopped_at IS NULL)))
      AND EXISTS (SELECT FROM inbox.inbox_instances i WHERE i.id = $1::int AND i.fenced_at IS NULL)
    RETURNING r.floor, coalesce(pg_sequence_last_value('inbox.outbox_seq'::regclass), 0) AS last_number,
              pg_current_xact_id()::text::bigint AS transaction, r.tip, r.hole_first, r.hole_last
)
SELECT e.floor, e.last_number, e.transaction, e.tip, h.first, h.last
FROM elected e
LEFT JOIN LATERAL unnest(e.hole_first, e.hole_last) AS h(first, last) ON $2::bigint = -1
