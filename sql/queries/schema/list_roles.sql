-- The roles of inboxd in this cluster, and who has them, for `inboxd migrate --roles`.
-- Caller: store/schema/roles.c. Index: pg_authid_rolname_index.
-- From PostgreSQL 16 on, who creates a role becomes a member with neither INHERIT nor SET, which gives no right. Before, a
-- membership had no such options.
-- Back: role, the roles and users that have it ('' = none).
SELECT r.rolname,
       coalesce((SELECT string_agg(quote_ident(u.rolname), ', ' ORDER BY u.rolname)
                 FROM pg_auth_members m JOIN pg_roles u ON u.oid = m.member
                 WHERE m.roleid = r.oid
                   AND to_jsonb(m) @> '{"inherit_option": false, "set_option": false}' IS NOT TRUE), '')
FROM pg_roles r
WHERE r.rolname IN ('inboxd_sidecar', 'inboxd_handler', 'inboxd_service', 'inboxd_operator', 'inboxd_reader')
