-- This user's name, whether it may call a function of the schema that changes something, and the role that may.
-- Caller: ops/op.c. Index: none (catalogs).
-- $1 the function's name. If it does not exist, the statement fails.
SELECT quote_ident(current_user),
       coalesce(bool_or(has_function_privilege(p.oid, 'EXECUTE')), true),
       coalesce((SELECT quote_ident(f.prefix || '_operator') FROM (
-- include: role_prefixes
       ) f ORDER BY f.place LIMIT 1), 'inboxd_operator')
FROM pg_class c JOIN pg_proc p ON p.pronamespace = c.relnamespace
WHERE c.oid = 'inbox.inbox_messages'::regclass AND p.proname = $1::text
