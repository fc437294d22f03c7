-- Stops delivery for a topic, a consumer or a handler.
-- Caller: ops/pause.c. Index: inbox_pauses_pkey.
-- $1 kind, $2 name, $3 reason, $4 whether the topic is not read either. Back: whether a row changed.
SELECT inbox.pause($1::text, $2::text, $3::text, $4::boolean)
