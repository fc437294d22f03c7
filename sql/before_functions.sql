-- Begins the script of functions/, which `inboxd migrate` applies in the transaction of the last migration, or alone.
--
-- Every name in functions/ is qualified. Bodies are not checked, so that the order of the files does not matter.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL check_function_bodies = off;

-- Records the existing functions and views; after_functions.sql handles the others.
SELECT set_config('inboxd.earlier_functions', coalesce(string_agg(p.oid::text, ','), ''), true)
FROM pg_class c JOIN pg_proc p ON p.pronamespace = c.relnamespace
WHERE c.oid = 'inbox.inbox_messages'::regclass;
