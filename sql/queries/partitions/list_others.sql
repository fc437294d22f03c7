-- Other instances that may hold claims (alive, or dead and not yet rescued), and how far the rows of each must be
-- searched (rule R12).
-- Caller: store/claims/other_claims.c, after partitions were taken. Index: inbox_messages_claimed for the last claim.
-- $1 own id. Back: id, lower bound of its seqs except its stragglers, the last assigned seq, low_claim, its last claim.
SELECT i.id, greatest(i.low_seq, i.low_rest),
       coalesce(pg_sequence_last_value(pg_get_serial_sequence('inbox.inbox_messages', 'seq')::regclass), 0),
       i.low_claim,
       coalesce((SELECT max(m.claim_number) FROM inbox.inbox_messages m
                 WHERE m.claimed_by = i.id AND m.delivery_count > 1), 0)
FROM inbox.inbox_instances i
WHERE i.id <> $1::int AND i.rescued_at IS NULL
ORDER BY i.id
