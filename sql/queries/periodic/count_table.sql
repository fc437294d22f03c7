-- The numbers of the gauges that concern the whole table or server, not single streams.
-- Caller: store/claims/waiting_rows.c, every ten seconds. Index: inbox_messages_dead; outbox_pkey, outbox_waiting; views of the
-- server's memory.
-- $1 cap. Back:
-- how many messages are dead and not discarded, up to the cap;
-- how many milliseconds the oldest transaction of this database has kept dead rows from being removed: only members of
-- pg_read_all_stats see sessions of other roles, everyone sees prepared transactions;
-- how many events wait in the outbox although no instance was elected to publish them for half a minute, up to the cap for each of
-- three kinds: those in holes, those behind the tip, and deferred ones. An instance that fails is elected again every few
-- seconds, so its events do not count.
SELECT (SELECT count(*)
        FROM (SELECT 1 FROM inbox.inbox_messages
              WHERE dead_at IS NOT NULL AND (error_code IS DISTINCT FROM 'DISCARDED' OR claimed_by IS NOT NULL)
              LIMIT $1::bigint) d),
       (SELECT coalesce(extract(epoch FROM now() - min(o.since)) * 1000, 0)::bigint
        FROM (SELECT a.xact_start AS since FROM pg_catalog.pg_stat_activity a
              WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
                AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
              UNION ALL
              SELECT p.prepared FROM pg_catalog.pg_prepared_xacts p WHERE p.database = current_database()) o),
       CASE WHEN NOT EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.seen_at >= clock_timestamp() - interval '30 seconds')
            THEN (SELECT c.waiting FROM inbox.outbox_counts($1::bigint) c) ELSE 0 END
