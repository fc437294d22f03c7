-- Completes messages (rule R7): a HOT update, and the only settle while nothing fails.
-- Caller: store/claims/settle.c. Index: inbox_messages_seq_key; no index changes.
-- Named: with any statistics its plan is this index.
-- $1 own id, $2 seqs, $3 the delivery count all of them have, $4 the handler that had all of them. As many rows as
-- seqs, or some were not ours. Seqs as one list, nothing RETURNed: a join with two unnested arrays and its answer cost
-- a fifth more. CASE hides the claim from the planner. It has no statistics of this instance's id, would expect a
-- single row, and in a small table compare every claimed row with every one of the batch.
UPDATE inbox.inbox_messages m SET processed_at = now(), handler = $4::text
WHERE m.seq = ANY ($2::bigint[])
  AND CASE WHEN m.claimed_by = $1::int AND m.delivery_count = $3::int
            AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL THEN true END
