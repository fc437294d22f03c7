-- The lanes in which messages of a key wait, each with the message that they wait for.
-- Caller: ops/skip.c. Index: inbox_messages_due (inbox.waiting_streams()), inbox_messages_by_key, inbox_messages_by_offset
-- (inbox.lane_head()).
-- $1 topic (NULL = any), $2 key (NULL = the whole partition), $3 consumer (NULL = any), $4 partition (NULL = any). Back:
-- topic, consumer, partition, seq, whether an instance holds the message, its event id, its state, its error, how many wait
-- behind it.
SELECT s.topic, s.consumer, l.partition, l.seq, l.claimed, k.event_id, k.status,
       nullif(concat_ws(': ', k.error_code, k.error), ''), k.waiting
FROM (SELECT DISTINCT w.topic, w.consumer FROM inbox.waiting_streams() w
      WHERE ($1::text IS NULL OR w.topic = $1::text) AND ($3::text IS NULL OR w.consumer = $3::text)) s
CROSS JOIN LATERAL inbox.lanes_of(s.topic, $2::text, s.consumer, $4::text::int) l
CROSS JOIN LATERAL inbox.describe_key(l.seq) k
ORDER BY s.topic, l.partition, s.consumer
