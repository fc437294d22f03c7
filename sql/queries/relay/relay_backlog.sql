-- What the relay has not published, for metrics. Counts end at a cap.
-- Caller: store/outbox, every ten seconds. Index: outbox_pkey, outbox_waiting, outbox_dead; needs relay_settings.
-- $1 cap, $2 the floor. Back: events that wait (also deferred ones), parked ones, dead ones, and the age of the oldest
-- event that is neither published nor dead, in ms (NULL = there is none). A time that is not finite has no age.
SELECT f.count + t.count, t.parked, d.count,
       greatest((extract(epoch FROM clock_timestamp() - least(f.oldest, t.oldest)) * 1000)::bigint,
                CASE WHEN least(f.oldest, t.oldest) IS NOT NULL THEN 0 END)
FROM (SELECT count(*) FILTER (WHERE l.fresh), min(l.created_at) FILTER (WHERE l.fresh AND isfinite(l.created_at)) AS oldest
      FROM (SELECT o.created_at, num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0 AS fresh
            FROM inbox.outbox o WHERE o.seq > $2::bigint ORDER BY o.seq LIMIT $1::bigint) l) f
CROSS JOIN (SELECT count(*), count(*) FILTER (WHERE l.available_at = 'infinity') AS parked,
                   min(l.created_at) FILTER (WHERE isfinite(l.created_at)) AS oldest
            FROM (SELECT o.available_at, o.created_at FROM inbox.outbox o WHERE o.available_at > '-infinity'
                  ORDER BY o.available_at, o.seq LIMIT $1::bigint) l) t
CROSS JOIN (SELECT count(*) FROM (SELECT 1 FROM inbox.outbox o WHERE o.dead_at IS NOT NULL LIMIT $1::bigint) l) d
