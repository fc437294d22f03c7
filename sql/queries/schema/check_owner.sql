-- Whether this user owns the schema, which is more than a sidecar needs. A superuser counts.
-- Caller: store/schema/privileges.c, for `inboxd check`. Index: none (catalogs).
-- Back: the role that is enough; no row: the user is not the owner.
WITH used AS (
-- include: role_prefixes
)
SELECT coalesce((SELECT u.prefix FROM used u ORDER BY u.place LIMIT 1), 'inboxd') || '_sidecar'
FROM pg_class c
WHERE c.oid = 'inbox.inbox_messages'::regclass AND pg_has_role(c.relowner, 'USAGE')
