-- Fenced instances whose rows were not all given back yet. In random order, so that instances with a row that stays
-- locked do not hide the others.
-- Caller: store/leases/rescue.c, after fencing and with each heartbeat. Index: none (small table).
SELECT id, greatest(low_seq, low_rest), low_claim FROM inbox.inbox_instances
WHERE fenced_at IS NOT NULL AND rescued_at IS NULL
ORDER BY random()
LIMIT 16
