-- Oldest sidecar: 3
-- Renamed consumers (docs/adr/0040). An earlier sidecar that lists the earlier name stores for it again, so rename only when all
-- sidecars have this version.

CREATE TABLE inbox.inbox_renames (
    old_name  text COLLATE "C" PRIMARY KEY,
    new_name  text COLLATE "C" NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    moved_at  timestamptz,
    walked_to bigint NOT NULL DEFAULT 0,
    skipped   boolean NOT NULL DEFAULT false,
    CHECK (old_name <> new_name)
);

-- Sidecars need it at their start, also if `inboxd migrate` runs without --roles.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS who
                   FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
                   WHERE c.oid = 'inbox.inbox_consumers'::regclass AND a.privilege_type = 'SELECT' LOOP
        EXECUTE format('GRANT SELECT ON inbox.inbox_renames TO %s', granted.who);
    END LOOP;
END $$;

-- The consumer without a name does not lapse any more. In a schema whose other consumers have outlived it, it stays ended.
DELETE FROM inbox.inbox_consumers c
WHERE c.name = ''
  AND EXISTS (SELECT FROM inbox.inbox_consumers o WHERE o.name <> '' AND o.listed_at > c.listed_at + c.memory);
