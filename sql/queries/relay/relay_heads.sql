-- The events that hold their key or their topic: deferred ones that are not parked. In the order of (available_at,
-- seq), page by page.
-- Caller: store/outbox, when this instance is elected. Index: outbox_waiting; needs relay_settings.
-- $1 most rows, $2 and $3 the last row of the page before: its available_at in microseconds and its seq; 0 and 0 = the
-- first page. Back: seq, topic, aggregate, event_type, key, error_code, available_at in microseconds.
SELECT o.seq, o.topic, o.aggregate, o.event_type, o.key, o.error_code,
       (extract(epoch FROM o.available_at) * 1000000)::bigint
FROM inbox.outbox o
WHERE o.available_at < 'infinity' AND o.available_at > '-infinity'
  AND (o.available_at, o.seq) > (coalesce(timestamptz 'epoch' + nullif($2::bigint, 0) * interval '1 microsecond',
                                          '-infinity'), $3::bigint)
ORDER BY o.available_at, o.seq
LIMIT $1::int
