-- Replays a dead message with the payload of a conflict, for one consumer or for all.
-- Caller: ops/replay_rejects.c. Index: inbox_conflicts_pkey, inbox_messages_pkey.
-- $1 seq of the conflict, $2 reason, $3 consumer (NULL = all). Back: whether a row changed; NULL = there is no such conflict.
SELECT inbox.take_conflict($1::bigint, $2::text, $3::text)
