-- How long the oldest transaction of this database has kept dead rows from being removed. Only members of
-- pg_read_all_stats see sessions of other roles; everyone sees prepared transactions.
-- Caller: store/claims/waiting_rows.c, every ten seconds. Index: none, views of the server's memory.
-- Back: milliseconds.
SELECT coalesce(extract(epoch FROM now() - min(o.since)) * 1000, 0)::bigint
FROM (SELECT a.xact_start AS since FROM pg_catalog.pg_stat_activity a
      WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      UNION ALL
      SELECT p.prepared FROM pg_catalog.pg_prepared_xacts p WHERE p.database = current_database()) o
