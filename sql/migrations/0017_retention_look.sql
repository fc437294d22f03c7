-- Oldest sidecar: 3
-- Sidecars read which of them runs retention (docs/adr/0046). So whoever may read the pauses may read that, also if `inboxd migrate`
-- runs without --roles.

DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
                  FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
                  WHERE c.oid = 'inbox.inbox_pauses'::regclass AND a.privilege_type = 'SELECT' LOOP
        EXECUTE format('GRANT SELECT ON inbox.inbox_janitor TO %s', reader);
    END LOOP;
END $$;
