-- Oldest sidecar: 3
-- Pauses: topics, consumers and handlers for which operators have stopped delivery. A sidecar that does not know pauses
-- continues to deliver, so pause only when all sidecars have this version.

CREATE TABLE inbox.inbox_pauses (
    kind   text COLLATE "C" NOT NULL CHECK (kind IN ('topic', 'consumer', 'handler')),
    name   text COLLATE "C" NOT NULL,
    ingest boolean NOT NULL DEFAULT false CHECK (NOT ingest OR kind = 'topic'),
    since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    who    text NOT NULL DEFAULT session_user,
    reason text,
    PRIMARY KEY (kind, name)
);

-- Sidecars read the pauses before they deliver anything. So whoever may read the handlers may read the pauses, also if
-- `inboxd migrate` runs without --roles.
DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
                  FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
                  WHERE c.oid = 'inbox.inbox_handlers'::regclass AND a.privilege_type = 'SELECT' LOOP
        EXECUTE format('GRANT SELECT ON inbox.inbox_pauses TO %s', reader);
    END LOOP;
END $$;
