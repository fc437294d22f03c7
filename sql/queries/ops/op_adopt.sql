-- Binds the schema.
-- Caller: ops/adopt.c. Index: inbox_binding_pkey.
-- $1 cluster id, $2 group id, $3 reason. Back: whether it was bound to another one before.
SELECT inbox.adopt($1::text, $2::text, $3::text)
