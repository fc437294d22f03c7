-- Lets another instance publish events.
-- Caller: store/outbox, at the end and after a failure. Index: none (one row).
-- $1 own id.
UPDATE inbox.outbox_relay SET instance = NULL WHERE instance = $1::int
