-- Does to these rows what a claim does, in a transaction that is rolled back, to see whether PostgreSQL refuses one.
-- Also reads what is stored out of line, but does not send it.
-- Caller: store/claims/claims.c, halving the list. Index: inbox_messages_seq_key.
-- $1 own id, $2 the claim's number, $3 seqs.
UPDATE inbox.inbox_messages m
SET available_at = NULL, claimed_by = $1::int, claim_number = $2::bigint,
    delivery_count = greatest(least(m.delivery_count, 2147483646) + 1, 2)
FROM (SELECT f.seq FROM inbox.inbox_messages f
      WHERE f.seq = ANY ($3::bigint[]) AND f.available_at IS NOT NULL
      FOR UPDATE SKIP LOCKED) free
WHERE m.seq = free.seq
RETURNING md5(m.key), md5(m.headers::text), md5(m.payload)
