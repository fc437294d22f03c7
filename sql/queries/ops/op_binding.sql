-- The cluster and group that the schema belongs to; no row = none yet.
-- Caller: ops/adopt.c. Index: none (one row).
SELECT b.cluster_id, b.group_id FROM inbox.inbox_binding b
