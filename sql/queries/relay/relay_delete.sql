-- Deletes events that the brokers have confirmed. Leaves out rows that somebody has locked.
-- Caller: store/outbox, behind relay_hold in its transaction. Index: outbox_pkey.
-- $1 seqs, $2 own id: nothing happens if relay_hold has found no row. Back: the seqs that were left out.
WITH recorded AS (
    DELETE FROM inbox.outbox o
    WHERE o.seq = ANY ($1::bigint[]) AND EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.instance = $2::int)
-- include: relay_free
    RETURNING o.seq
)
-- include: relay_left_out
)
