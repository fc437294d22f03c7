-- Ends the script of functions/: owners and rights of new objects. Existing objects keep both.
--
-- A new function may be called by its owner only; roles.sql says who else may. If there is an earlier function with its
-- name and other parameters, it gets the owner and the grants of that one; otherwise it gets the owner of most earlier
-- functions. A SECURITY DEFINER function runs as its owner: without this it could not call a new function that a
-- superuser's migration created. If the new one only has more parameters, all with defaults, the earlier one is dropped:
-- a call without them could mean both.
DO $$
DECLARE
    earlier oid[] := string_to_array(nullif(current_setting('inboxd.earlier_functions'), ''), ',')::oid[];
    usual_owner oid;
    made record;
    heritage record;
    given record;
    replaced record;
BEGIN
    SELECT mode() WITHIN GROUP (ORDER BY p.proowner) INTO usual_owner FROM pg_proc p WHERE p.oid = ANY (earlier);
    FOR made IN SELECT p.oid, p.oid::regprocedure AS routine, p.proname, p.pronamespace, p.proowner,
                       p.pronargs, p.pronargdefaults, p.proargtypes
                FROM pg_class c JOIN pg_proc p ON p.pronamespace = c.relnamespace
                WHERE c.oid = 'inbox.inbox_messages'::regclass AND p.oid <> ALL (coalesce(earlier, '{}')) LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', made.routine);
        SELECT p.proowner, p.proacl INTO heritage FROM pg_proc p
        WHERE p.oid = ANY (earlier) AND p.pronamespace = made.pronamespace AND p.proname = made.proname
        ORDER BY p.oid DESC LIMIT 1;
        IF coalesce(heritage.proowner, usual_owner, made.proowner) <> made.proowner THEN
            EXECUTE format('ALTER FUNCTION %s OWNER TO %s', made.routine,
                           coalesce(heritage.proowner, usual_owner)::regrole);
        END IF;
        FOR given IN SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee,
                            CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END AS option
                     FROM aclexplode(heritage.proacl) a WHERE a.grantee <> heritage.proowner LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s%s', made.routine, given.grantee, given.option);
        END LOOP;
        FOR replaced IN SELECT p.oid::regprocedure AS routine FROM pg_proc p
                        WHERE p.oid = ANY (earlier) AND p.pronamespace = made.pronamespace AND p.proname = made.proname
                          AND p.pronargs BETWEEN made.pronargs - made.pronargdefaults AND made.pronargs - 1
                          AND starts_with(made.proargtypes::text || ' ', p.proargtypes::text || ' ') LOOP
            EXECUTE format('DROP FUNCTION %s', replaced.routine);
        END LOOP;
    END LOOP;
END $$;

-- Functions of earlier versions that nothing calls.
DROP FUNCTION IF EXISTS inbox.request_token(text, text), inbox.emitted_is_right(jsonb), inbox.claim_parts(text), inbox.claim_is_lost(text),
    inbox.read_claim(text);
DROP FUNCTION IF EXISTS inbox.retain_messages(text, interval, int);
DROP FUNCTION IF EXISTS inbox.walk_messages(boolean, timestamptz, timestamptz, bigint, bigint, int);
DROP FUNCTION IF EXISTS inbox.retain_dead(text, boolean, timestamptz, int);
DROP FUNCTION IF EXISTS inbox.retain_published(interval, int);
DROP FUNCTION IF EXISTS inbox.retain_requests(timestamptz, int);
DROP FUNCTION IF EXISTS inbox.retain_low(regclass, text, timestamptz, int);

-- Tables and views that this user created get the owner of inbox_messages, too.
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT r.oid::regclass AS name, c.relowner
                FROM pg_class c JOIN pg_class r ON r.relnamespace = c.relnamespace
                WHERE c.oid = 'inbox.inbox_messages'::regclass AND r.relowner <> c.relowner
                  AND pg_get_userbyid(r.relowner) = current_user AND r.relkind IN ('r', 'v')
                  AND (starts_with(r.relname, 'inbox_') OR r.relname IN ('outbox', 'outbox_relay', 'outboxevent', 'messages', 'dead_groups',
                                                                 'handlers', 'consumers', 'events', 'requests',
                                                                 'request_states')) LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %s', made.name, made.relowner::regrole);
    END LOOP;
END $$;
