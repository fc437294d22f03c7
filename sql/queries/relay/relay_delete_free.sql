-- The same without waiting (rule R8), after relay_delete met a locked row: it costs more WAL.
-- Caller: store/outbox, after relay_hold in its transaction. Index: outbox_pkey.
-- $1 seqs. Back: those that are gone. The others stay, and are deleted with a later flight.
WITH free AS MATERIALIZED (
    SELECT o.seq FROM inbox.outbox o WHERE o.seq = ANY ($1::bigint[]) FOR UPDATE SKIP LOCKED
), deleted AS (
    DELETE FROM inbox.outbox o USING free f WHERE o.seq = f.seq RETURNING o.seq
)
SELECT a.seq FROM unnest($1::bigint[]) AS a(seq)
WHERE a.seq IN (SELECT d.seq FROM deleted d) OR NOT EXISTS (SELECT FROM inbox.outbox o WHERE o.seq = a.seq)
