-- Notes that a dead instance holds nothing any more.
-- Caller: store/leases/rescue.c. Index: inbox_instances_pkey. $1 dead id.
UPDATE inbox.inbox_instances SET rescued_at = clock_timestamp() WHERE id = $1::int
