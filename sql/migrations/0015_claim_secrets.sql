-- Oldest sidecar: 3
-- What makes the claims of an instance hard to guess (docs/adr/0044). An earlier sidecar has no row here, and its claims are
-- valid without a tag. It does not see the table.

CREATE TABLE inbox.inbox_claim_secrets (
    instance int PRIMARY KEY REFERENCES inbox.inbox_instances ON DELETE CASCADE,
    secret   bytea NOT NULL
);

-- Sidecars need it at their start, also if `inboxd migrate` runs without --roles.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS who
                   FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
                   WHERE c.oid = 'inbox.inbox_instances'::regclass AND a.privilege_type = 'INSERT'
                     AND a.grantee <> c.relowner LOOP
        EXECUTE format('GRANT INSERT ON inbox.inbox_claim_secrets TO %s', granted.who);
    END LOOP;
END $$;
