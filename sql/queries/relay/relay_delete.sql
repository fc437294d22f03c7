-- Deletes events that the brokers have confirmed.
-- Caller: store/outbox, after relay_hold in its transaction. Index: outbox_pkey.
-- $1 seqs. It waits for a row that somebody has locked, up to lock_timeout; relay_delete_free does not.
DELETE FROM inbox.outbox WHERE seq = ANY ($1::bigint[])
