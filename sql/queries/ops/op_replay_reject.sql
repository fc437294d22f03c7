-- Makes a message of a reject.
-- Caller: ops/replay_rejects.c. Index: inbox_rejects_pkey, inbox_messages_pkey.
-- $1 seq of the reject, $2 source, $3 event id, $4 type, $5 reason. Back: stored, duplicate, conflict, unwanted, behind, or NULL.
SELECT inbox.replay_reject($1::bigint, $2::text, $3::text, $4::text, $5::text)
