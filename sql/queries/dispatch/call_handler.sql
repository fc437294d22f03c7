-- Calls a SQL handler for one message (ADR 0033). A statement for each message, so that statement_timeout limits each call.
-- Caller: store/claims/sql_calls.c. Index: inbox_messages_seq_key; a HOT update.
-- $1 own id, $2 seq and $3 delivery count of the claim, $4 seq of the message before it in its lane (NULL = none), $5 name
-- of the handler, $6 the function, $7 the role (NULL = own), $8 age of the transaction in ms after which no call begins. The
-- search_path of the session is passed on, because inbox.call_handler() has one of its own. Back: status, SQLSTATE or code, error, delay in ms (NULL = the configured one).
SELECT c.status, c.error_code, c.error, c.delay_ms
FROM inbox.call_handler($1::int, $2::bigint, $3::int, $4::bigint, $5::text, $6::text, $7::text, $8::bigint,
                        current_setting('search_path')) c
