-- The other schemas that the roles of this schema may use, for `inboxd migrate --roles` and `inboxd check`. Roles belong to the
-- whole server, so a user who has one of them can act in each of these schemas.
-- Caller: store/schema/roles.c. Index: pg_authid_rolname_index, pg_shdepend_reference_index.
-- $1 prefix; NULL: those that may use the schema, or inboxd. Back: prefix, the schema or database, whether users of the
-- other schema can connect here without a GRANT for this database, whether this user, who is no superuser, has such a role and can connect there,
-- this database, the other one.
WITH used AS (
-- include: role_prefixes
), own AS (
    SELECT b.oid AS database, b.datname, c.relnamespace AS schema
    FROM pg_database b, pg_class c
    WHERE b.datname = current_database() AND c.oid = 'inbox.inbox_messages'::regclass
)
SELECT w.prefix,
       CASE WHEN d.dbid = own.database THEN 'the schema ' || d.objid::regnamespace ELSE 'the database ' || quote_ident(b.datname) END,
       d.dbid = own.database OR has_database_privilege('public', own.database, 'CONNECT'),
       bool_or(pg_has_role(r.oid, 'USAGE') AND NOT u.rolsuper) AND (d.dbid = own.database OR has_database_privilege(d.dbid, 'CONNECT')),
       quote_ident(own.datname), quote_ident(b.datname)
FROM (SELECT $1::text AS prefix WHERE $1::text IS NOT NULL
      UNION ALL SELECT u.prefix FROM used u WHERE $1::text IS NULL
      UNION ALL SELECT 'inboxd' WHERE $1::text IS NULL AND NOT EXISTS (SELECT FROM used)) w
CROSS JOIN (VALUES ('sidecar'), ('handler'), ('service'), ('operator'), ('reader')) AS s(suffix)
JOIN pg_roles r ON r.rolname = w.prefix || '_' || s.suffix
JOIN pg_shdepend d ON d.refclassid = 'pg_authid'::regclass AND d.refobjid = r.oid AND d.deptype = 'a'
                      AND d.classid = 'pg_namespace'::regclass
JOIN pg_database b ON b.oid = d.dbid
CROSS JOIN own
JOIN pg_roles u ON u.rolname = current_user
WHERE (d.dbid, d.objid) <> (own.database, own.schema)
GROUP BY w.prefix, d.dbid, d.objid, b.datname, own.database, own.datname HAVING count(*) = 5
ORDER BY w.prefix, b.datname, d.objid
