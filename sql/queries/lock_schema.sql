-- Holds off other migrations of this schema until the transaction ends.
-- Caller: store/migrate.c. Index: none. $1 schema name.
SELECT pg_advisory_xact_lock(hashtextextended('inboxd migrate ' || $1::text, 0))
