-- Locks the election until the end of the transaction that records what became of a flight, and stores the floor (rule
-- O4): no other instance is elected before that COMMIT.
-- Caller: store/outbox, first in that transaction. Index: none (one row).
-- $1 own id, $2 the floor. No row: another instance was elected; roll back.
UPDATE inbox.outbox_relay SET seen_at = clock_timestamp(), floor = $2::bigint WHERE instance = $1::int
RETURNING true
