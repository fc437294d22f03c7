-- Oldest sidecar: 3
-- What was there when the group began: only there kafka.auto.offset.reset decides the first start offset.

CREATE TABLE inbox.inbox_subscriptions (
    entry    text COLLATE "C" PRIMARY KEY,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE inbox.inbox_offsets ADD COLUMN at_begin boolean NOT NULL DEFAULT false;

-- Sidecars need it at their start, also if `inboxd migrate` runs without --roles.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS who, a.privilege_type
                   FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
                   WHERE c.oid = 'inbox.inbox_binding'::regclass AND a.privilege_type IN ('SELECT', 'INSERT') LOOP
        EXECUTE format('GRANT %s ON inbox.inbox_subscriptions TO %s', granted.privilege_type, granted.who);
    END LOOP;
END $$;
