-- How many events wait in the outbox although no instance was elected to publish them for half a minute, up to a cap for
-- each of two kinds: new ones, and deferred ones. An instance that fails is elected again every few seconds, so its
-- events do not count.
-- Caller: store/claims/waiting_rows.c, every ten seconds. Index: outbox_pkey, outbox_waiting; needs relay_settings.
-- $1 cap. Back: how many.
WITH unattended AS MATERIALIZED (
    SELECT r.floor FROM inbox.outbox_relay r
    WHERE r.seen_at < clock_timestamp() - interval '30 seconds'
)
SELECT (SELECT count(*) FROM unattended u
        CROSS JOIN LATERAL (SELECT num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0 AS fresh
                            FROM inbox.outbox o WHERE o.seq > u.floor ORDER BY o.seq LIMIT $1::bigint) n
        WHERE n.fresh)
     + (SELECT count(*) FROM unattended
        CROSS JOIN LATERAL (SELECT FROM inbox.outbox o WHERE o.available_at > '-infinity'
                            ORDER BY o.available_at, o.seq LIMIT $1::bigint) d)
