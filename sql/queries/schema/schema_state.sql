-- The state of the schema, and the rights of this user to migrate it.
-- Caller: store/schema/migrate.c. Index: none (catalogs). $1 schema name.
-- Back: the schema exists, may be created, its objects may be created; the version table exists, its owner is this user, and it
-- is no pre-release's.
SELECT n.oid IS NOT NULL,
       has_database_privilege(current_database(), 'CREATE'),
       coalesce(has_schema_privilege(n.oid, 'CREATE, USAGE'), false),
       c.oid IS NOT NULL,
       coalesce(pg_has_role(c.relowner, 'USAGE'), false),
       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'oldest_sidecar')
FROM (SELECT $1::text AS name) s
LEFT JOIN pg_namespace n ON n.nspname = s.name
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'inbox_schema_version'
