-- Whether an index can be used; no row = it does not exist. An index that is being built, or whose build was
-- interrupted, cannot.
-- Caller: store/schema/migrate_online.c. Index: none (catalogs). $1 schema name, $2 index.
SELECT i.indisvalid AND i.indisready
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_index i ON i.indexrelid = c.oid
WHERE n.nspname = $1::text AND c.relname = $2::text
