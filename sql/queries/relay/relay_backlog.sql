-- What the relay has not published, for metrics. Counts end at a cap.
-- Caller: store/outbox, every ten seconds. Index: outbox_pkey, outbox_waiting, outbox_dead.
-- $1 cap. Back: events that wait (also deferred ones), parked ones, dead ones, and the age of the oldest event that is neither
-- published nor dead, in ms (NULL = there is none with a finite time, 0 = its time is in the future).
SELECT c.waiting, c.parked, c.dead,
       greatest((extract(epoch FROM clock_timestamp() - c.oldest) * 1000)::bigint, CASE WHEN c.oldest IS NOT NULL THEN 0 END)
FROM inbox.outbox_counts($1::bigint) c
