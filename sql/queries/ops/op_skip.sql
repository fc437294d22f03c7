-- Gives up the message that a key waits for.
-- Caller: ops/skip.c. Index: inbox_messages_by_key, inbox_messages_by_offset (inbox.lane_head()).
-- $1 topic, $2 key, $3 consumer, $4 reason, $5 partition, $6 the message. Back: its event id; NULL = nothing waits.
SELECT inbox.skip_key($1::text, $2::text, $3::text, $4::text, $5::int, $6::bigint)
