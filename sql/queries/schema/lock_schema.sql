-- Blocks other migrations of this schema until the transaction ends: true, or false if another one has the lock.
-- Does not wait: a statement that waits has a snapshot, and CREATE INDEX CONCURRENTLY of the other migration would
-- wait for that.
-- Caller: store/schema/migrate.c. Index: none. $1 schema name.
SELECT pg_try_advisory_xact_lock(hashtextextended('inboxd migrate ' || $1::text, 0))
