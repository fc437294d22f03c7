-- Gives back own claims from the table that memory does not hold: the COMMIT of such a claim got no answer (rule
-- R3). The caller has no other claim in progress.
-- Caller: store/claims/claims.c. Index: inbox_messages_claimed.
-- $1 own id, $2 the seqs that memory holds, $3 their delivery counts, $4 the lowest claim number that may hold any. If memory holds an
-- earlier claim of a row, its verdict is committed although its answer was lost, and the later claim is not held.
WITH freed AS (
    UPDATE inbox.inbox_messages SET available_at = now(), claimed_by = NULL
    WHERE claimed_by = $1::int AND delivery_count > 1 AND claim_number >= $4::bigint
      AND processed_at IS NULL AND dead_at IS NULL AND available_at IS NULL
      AND (seq, delivery_count) NOT IN (SELECT h.seq, h.delivery_count
                                        FROM unnest($2::bigint[], $3::int[]) AS h(seq, delivery_count))
    RETURNING 1
)
SELECT count(*) FROM freed
