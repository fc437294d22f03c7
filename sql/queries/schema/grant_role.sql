-- The statements that give a role of the schema to a user, for `inboxd migrate --roles --grant`. A statement is NULL if the
-- user has the role or the privilege already, because the user of a later run may have no right to grant it. The second
-- statement grants CONNECT on the database, in case PUBLIC does not have it. It is NULL if the user of the session may not
-- grant CONNECT: then the owner of the database grants it.
-- Caller: store/schema/roles.c. Index: pg_authid_rolname_index.
-- $1 prefix; NULL: that of the schema. $2 the role without the prefix, $3 the user. Back: the two statements (NULL = not
-- necessary). No row: there is no such user.
WITH used AS (
-- include: role_prefixes
)
SELECT
    CASE WHEN NOT EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = r.oid AND m.member = u.oid
                            AND to_jsonb(m) @> '{"inherit_option": false, "set_option": false}' IS NOT TRUE)
         THEN format('GRANT %I TO %I', r.rolname, u.rolname) END,
    CASE WHEN has_database_privilege(b.oid, 'CONNECT WITH GRANT OPTION')
              AND NOT EXISTS (SELECT FROM aclexplode(b.datacl) a WHERE a.grantee = u.oid AND a.privilege_type = 'CONNECT')
         THEN format('GRANT CONNECT ON DATABASE %I TO %I', b.datname, u.rolname) END
FROM pg_roles r, pg_roles u, pg_database b
WHERE r.rolname = coalesce($1::text, (SELECT g.prefix FROM used g ORDER BY g.place LIMIT 1)) || '_' || $2::text
  AND u.rolname = $3::text AND b.datname = current_database()
