-- Locks the election until the end of the transaction that records what became of a flight (rule O4): no other instance
-- is elected before that COMMIT. It stores nothing, because each stored version would have to be passed by the next
-- flights as long as an old snapshot exists.
-- Caller: store/outbox, first in that transaction. Index: none (one row).
-- $1 own id. No row: another instance was elected; roll back. Back: the id of this transaction. Every transaction that
-- took a number of the sequence before this statement has a lower id (rule O1).
SELECT pg_current_xact_id()::text::bigint FROM (
    SELECT FROM inbox.outbox_relay r WHERE r.instance = $1::int FOR NO KEY UPDATE) h
