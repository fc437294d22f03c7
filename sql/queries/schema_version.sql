-- The newest migration applied here; 0 rows or an error 42P01/3F000: none yet.
-- Caller: store/migrate.c. Index: inbox_schema_version_pkey.
SELECT max(version) FROM inbox.inbox_schema_version
