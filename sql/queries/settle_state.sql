-- What became of rows that a settle did not match: completed under our claim, or lost?
-- Caller: store/settle.c. Index: inbox_messages_seq_key.
-- $1 own id, $2 seqs, $3 delivery counts. Back: seq, and the outcome recorded under that claim (0
-- processed, 1 dead, NULL none: its lock was in the way).
-- CASE: as in settle_done.
SELECT m.seq, CASE WHEN m.processed_at IS NOT NULL THEN 0 WHEN m.dead_at IS NOT NULL THEN 1 END
FROM inbox.inbox_messages m
JOIN unnest($2::bigint[], $3::int[]) AS v(seq, delivery_count) ON m.seq = v.seq
WHERE CASE WHEN m.claimed_by = $1::int AND m.delivery_count = v.delivery_count THEN true END
