-- inbox.outbox_status(), unchanged.
-- Caller: ops/outbox.c. Index: outbox_pkey, outbox_waiting, outbox_dead.
SELECT inbox.outbox_status()::text
