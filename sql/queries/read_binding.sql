-- Whom this schema belongs to; no row: nobody yet.
-- Caller: store/watermarks.c, for `inboxd check`. Index: inbox_binding_pkey.
SELECT cluster_id, group_id FROM inbox.inbox_binding
LIMIT 1
