-- Deletes events that the brokers have confirmed.
-- Caller: store/outbox, behind relay_hold in its transaction. Index: outbox_pkey.
-- $1 seqs, $2 own id: nothing happens if relay_hold has found no row. It waits for a row that somebody has locked, up to
-- lock_timeout; then relay_free says which rows are not locked.
DELETE FROM inbox.outbox
WHERE seq = ANY ($1::bigint[]) AND EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.instance = $2::int)
