-- Stores the handler in rows that inbox.complete() has completed. The number of updated rows shows whether all were
-- completed (rule R8). A HOT update while the page has room.
-- Caller: store/claims/settle.c. Index: inbox_messages_seq_key; no index changes.
-- $1 own id, $2 seqs, $3 the delivery count all of them have, $4 the handler that had all of them. Fewer rows than
-- seqs: some are not completed under this claim. CASE: as in settle_done.
UPDATE inbox.inbox_messages m SET handler = $4::text
WHERE m.seq = ANY ($2::bigint[])
  AND CASE WHEN m.claimed_by = $1::int AND m.delivery_count = $3::int AND m.processed_at IS NOT NULL THEN true END
