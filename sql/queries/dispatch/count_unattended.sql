-- How many events wait in the outbox although no instance was elected to publish them for half a minute, up to a cap for
-- each of three kinds: those in holes, those behind the tip, and deferred ones. An instance that fails is elected again every few
-- seconds, so its events do not count.
-- Caller: store/claims/waiting_rows.c, every ten seconds. Index: outbox_pkey, outbox_waiting.
-- $1 cap. Back: how many.
SELECT CASE WHEN NOT EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.seen_at >= clock_timestamp() - interval '30 seconds')
            THEN (SELECT c.waiting FROM inbox.outbox_counts($1::bigint) c) ELSE 0 END
