-- The newest migration applied here, and the oldest inboxd that may use the schema: the number of its newest migration.
-- 0 rows or an error 42P01/3F000: none yet. Error 42703: a schema of a pre-release.
-- Caller: store/schema/migrate.c. Index: inbox_schema_version_pkey.
SELECT version, oldest_sidecar FROM inbox.inbox_schema_version
ORDER BY version DESC
LIMIT 1
