-- The own lease, $1 = own id: the row of this instance, unless it is fenced (rule R4), or PostgreSQL failed over to
-- another timeline, which may lack what memory holds (rule R2). What was claimed there would be claimed here again,
-- with the same token.
-- Included by each statement that renews the lease or holds it while it claims. Index: inbox_instances_pkey.
WHERE id = $1::int AND fenced_at IS NULL
  AND timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)
