-- Notes how far a dead instance is rescued, so that the next round goes on from there.
-- Caller: store/rescue.c. Index: inbox_instances_pkey. $1 dead id, $2 low_seq, $3 low_claim.
UPDATE inbox.inbox_instances
SET low_seq = greatest(low_seq, $2::bigint), low_claim = greatest(low_claim, $3::bigint)
WHERE id = $1::int
