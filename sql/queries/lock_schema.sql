-- Holds off other migrations of this schema until the transaction ends: true, or false while another one does.
-- Waiting is the caller's: a statement that waits here has a snapshot, and CREATE INDEX CONCURRENTLY of the one that
-- holds the lock would wait for that.
-- Caller: store/migrate.c. Index: none. $1 schema name.
SELECT pg_try_advisory_xact_lock(hashtextextended('inboxd migrate ' || $1::text, 0))
