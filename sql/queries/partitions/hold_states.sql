-- The state of rows that another instance held when their partition was acquired (rule R12).
-- Caller: store/claims/other_claims.c, while keys are held back. Index: inbox_messages_seq_key.
-- $1 own id, $2 seqs. Back, only for rows that no other instance holds any more: seq, whether it waits.
SELECT m.seq, m.available_at IS NOT NULL
FROM inbox.inbox_messages m
WHERE m.seq = ANY ($2::bigint[])
  AND (m.available_at IS NOT NULL OR m.processed_at IS NOT NULL OR m.dead_at IS NOT NULL
       OR m.claimed_by = $1::int)
UNION ALL
SELECT s.seq, false FROM unnest($2::bigint[]) AS s(seq)
WHERE NOT EXISTS (SELECT FROM inbox.inbox_messages m WHERE m.seq = s.seq)
