-- Which of these events can be locked now, or are gone, after a flight met a row that somebody has locked (rule R8).
-- Caller: store/outbox, after relay_hold in its transaction; then relay_delete or relay_keep for these. Index: outbox_pkey.
-- $1 seqs. Back: seqs.
WITH free AS MATERIALIZED (
    SELECT o.seq FROM inbox.outbox o WHERE o.seq = ANY ($1::bigint[]) FOR UPDATE SKIP LOCKED
)
SELECT a.seq FROM unnest($1::bigint[]) AS a(seq)
WHERE a.seq IN (SELECT f.seq FROM free f) OR NOT EXISTS (SELECT FROM inbox.outbox o WHERE o.seq = a.seq)
