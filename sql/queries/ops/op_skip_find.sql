-- The lanes in which messages of a key wait, each with the message that they wait for.
-- Caller: ops/skip.c. Index: inbox_messages_by_key, inbox_messages_by_offset (inbox.lane_head()).
-- $1 topic, $2 key (NULL = the whole partition), $3 consumer, $4 partition (NULL = any). Back: partition, seq, whether an
-- instance holds the message, its event id, its state, its error, how many wait behind it.
SELECT l.partition, l.seq, l.claimed, k.event_id, k.status, nullif(concat_ws(': ', k.error_code, k.error), ''), k.waiting
FROM inbox.lanes_of($1::text, $2::text, $3::text, $4::text::int) l
CROSS JOIN LATERAL inbox.describe_key(l.seq) k
ORDER BY l.partition
