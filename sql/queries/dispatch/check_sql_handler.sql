-- Why a function cannot be called as a SQL handler, and what to do; NULL: it can be called.
-- Caller: store/claims/sql_calls.c. Index: none (catalogs).
-- $1 the function, $2 the role (NULL = own).
SELECT p.problem, p.advice FROM inbox.sql_handler_problem($1::text, $2::text) p
