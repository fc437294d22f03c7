-- Deletes a portion of the messages that had the age when they were counted. Microseconds, because an interval with days follows
-- the clock changes of the session's time zone.
-- Caller: ops/purge.c. Index: inbox_messages_seq_key.
-- $1 age in ms, $2 most rows, $3 time of the count (op_purge_count). Back: how many.
SELECT inbox.purge($1::bigint * interval '1 millisecond'
                   + ((extract(epoch FROM now()) * 1000000)::bigint - $3::bigint) * interval '1 microsecond', $2::int)
