-- Parked events, in the order of seq, page by page and without payloads: the relay finds those whose key is free again.
-- Caller: store/outbox, after a key or a topic became free, and every few seconds. Index: outbox_waiting; needs
-- relay_settings.
-- $1 most rows, $2 the last seq of the page before. Back: seq, topic, aggregate, event_type, key.
-- No time is later than infinity. With an equality the planner could follow outbox_pkey and read all that waits.
SELECT o.seq, o.topic, o.aggregate, o.event_type, o.key
FROM inbox.outbox o
WHERE o.available_at >= 'infinity' AND (o.available_at, o.seq) > ('infinity'::timestamptz, $2::bigint)
ORDER BY o.available_at, o.seq
LIMIT $1::int
