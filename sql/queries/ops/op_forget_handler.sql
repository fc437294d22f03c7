-- Forgets a handler.
-- Caller: ops/handlers.c. Index: inbox_handlers_pkey (small table).
-- $1 name, $2 reason, $3 consumer (NULL = any). Back: whether there was one.
SELECT inbox.forget_handler($1::text, $2::text, $3::text)
