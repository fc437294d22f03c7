-- This user's name, and whether it may call a function of the schema that changes something.
-- Caller: ops/op.c. Index: none (catalogs).
-- $1 the function's name. If it does not exist, the statement fails.
SELECT quote_ident(current_user),
       coalesce(bool_or(has_function_privilege(p.oid, 'EXECUTE')), true)
FROM pg_class c JOIN pg_proc p ON p.pronamespace = c.relnamespace
WHERE c.oid = 'inbox.inbox_messages'::regclass AND p.proname = $1::text
