-- This user's name, whether it may call a function of the schema that changes something, and the role that may. Also the role
-- that may read everything.
-- Caller: ops/op.c. Index: none (catalogs).
-- $1 the function's name. If it does not exist, the statement fails.
WITH used AS (
    SELECT coalesce((SELECT f.prefix FROM (
-- include: role_prefixes
       ) f ORDER BY f.place LIMIT 1), 'inboxd') AS prefix
)
SELECT quote_ident(current_user),
       coalesce(bool_or(has_function_privilege(p.oid, 'EXECUTE')), true),
       quote_ident((SELECT prefix FROM used) || '_operator'),
       quote_ident((SELECT prefix FROM used) || '_reader')
FROM pg_class c JOIN pg_proc p ON p.pronamespace = c.relnamespace
WHERE c.oid = 'inbox.inbox_messages'::regclass AND p.proname = $1::text
