-- The prefixes of the roles that may use this schema: inboxd, or another one with `inboxd migrate --roles=PREFIX`. While
-- users move from one to another, there are two; the newer one comes first. `migrate` puts a prefix into its
-- statements, so a role with another kind of name, which its owner may have chosen, is none of these.
    SELECT f.prefix, row_number() OVER (ORDER BY f.prefix = 'inboxd', f.prefix) AS place
    FROM (SELECT regexp_replace(g.rolname, '_(sidecar|handler|service|operator|reader)$', '') AS prefix
          FROM pg_class c
          JOIN pg_namespace n ON n.oid = c.relnamespace
          CROSS JOIN LATERAL aclexplode(n.nspacl) a
          JOIN pg_roles g ON g.oid = a.grantee
          WHERE c.oid = to_regclass('inbox.inbox_messages') AND a.privilege_type = 'USAGE'
            AND g.rolname ~ '^[a-z_][a-z0-9_]*_(sidecar|handler|service|operator|reader)$') f
    GROUP BY f.prefix HAVING count(*) = 5
