-- Ends a pause.
-- Caller: ops/pause.c. Index: inbox_pauses_pkey.
-- $1 kind, $2 name, $3 reason. Back: whether it was paused.
SELECT inbox.resume($1::text, $2::text, $3::text)
