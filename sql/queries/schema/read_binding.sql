-- The cluster and group that this schema belongs to; no row = none yet.
-- Caller: store/schema/binding.c, for `inboxd check`. Index: inbox_binding_pkey.
SELECT cluster_id, group_id FROM inbox.inbox_binding
LIMIT 1
