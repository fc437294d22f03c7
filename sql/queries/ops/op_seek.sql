-- Moves the watermark of a partition.
-- Caller: ops/seek.c. Index: inbox_offsets_pkey.
-- $1 topic, $2 partition, $3 offset, $4 reason.
SELECT inbox.seek($1::text, $2::int, $3::bigint, $4::text)
