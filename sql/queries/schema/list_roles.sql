-- The roles of the schema in this cluster, and who has them, for `inboxd migrate --roles`.
-- Caller: store/schema/roles.c. Index: pg_authid_rolname_index.
-- From PostgreSQL 16 on, who creates a role becomes a member with neither INHERIT nor SET, which gives no right. Before, a
-- membership had no such options.
-- $1 prefix; NULL: those that may use the schema, or inboxd. Back: role, its name without the prefix, the roles and users
-- that have it ('' = none), whether it can log in. The schema need not exist.
WITH used AS (
-- include: role_prefixes
)
SELECT r.rolname, s.suffix,
       coalesce((SELECT string_agg(quote_ident(u.rolname), ', ' ORDER BY u.rolname)
                 FROM pg_auth_members m JOIN pg_roles u ON u.oid = m.member
                 WHERE m.roleid = r.oid
                   AND to_jsonb(m) @> '{"inherit_option": false, "set_option": false}' IS NOT TRUE), ''),
       r.rolcanlogin
FROM (SELECT $1::text AS prefix WHERE $1::text IS NOT NULL
      UNION ALL SELECT u.prefix FROM used u WHERE $1::text IS NULL
      UNION ALL SELECT 'inboxd' WHERE $1::text IS NULL AND NOT EXISTS (SELECT FROM used)) w
CROSS JOIN (VALUES (1, 'sidecar'), (2, 'handler'), (3, 'service'), (4, 'operator'), (5, 'reader')) AS s(n, suffix)
JOIN pg_roles r ON r.rolname = w.prefix || '_' || s.suffix
ORDER BY w.prefix, s.n
