-- Counts a crash before a suspect is delivered; any answer takes it back (rule R14).
-- Caller: store/claims/settle.c. Index: inbox_messages_seq_key. HOT.
-- $1 own id, $2 seqs, $3 delivery counts. Back: seq and delivery count of those that were still ours.
-- CASE: as in settle_done.
UPDATE inbox.inbox_messages m SET crash_count = least(m.crash_count, 2147483646) + 1, suspect = true
FROM unnest($2::bigint[], $3::int[]) AS v(seq, delivery_count)
WHERE m.seq = v.seq
  AND CASE WHEN m.claimed_by = $1::int AND m.delivery_count = v.delivery_count
            AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL THEN true END
RETURNING m.seq, m.delivery_count
