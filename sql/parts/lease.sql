-- The own lease, $1 = own id: the row of this instance. No row if it is fenced (rule R4), or if PostgreSQL failed over to
-- another timeline, which may lack what memory holds (rule R2): rows claimed on the earlier timeline could be claimed on
-- this one again, with the same token.
-- Included by each statement that renews the lease, or holds it while it claims. Index: inbox_instances_pkey.
WHERE id = $1::int AND fenced_at IS NULL
  AND timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)
