-- Records how far a dead instance is rescued, so that the next round continues there.
-- Caller: store/leases/rescue.c. Index: inbox_instances_pkey. $1 dead id, $2 low_rest, $3 low_claim, $4 whether
-- low_seq is there, too: no straggler is left below it.
UPDATE inbox.inbox_instances
SET low_rest = greatest(low_rest, $2::bigint), low_claim = greatest(low_claim, $3::bigint),
    low_seq = CASE WHEN $4::boolean THEN greatest(low_seq, $2::bigint) ELSE low_seq END
WHERE id = $1::int
