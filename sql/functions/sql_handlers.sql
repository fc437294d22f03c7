-- SQL handlers: functions of the service that a sidecar calls itself (`handlers` in the configuration, ADR 0033).
--
-- The type of their one parameter is the row type of the view messages: its columns are never removed or changed, and new
-- ones come last, so that a function survives each migration.

-- Why `callee` cannot be called as the role `as_role` (NULL: as the caller), and what to do; NULL: it can.
CREATE OR REPLACE FUNCTION inbox.sql_handler_problem(callee text, as_role text, OUT problem text, OUT advice text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own_role text := current_setting('role');
    name text[];
    routine regprocedure;
    found record;
    caller text;
BEGIN
    IF as_role IS NOT NULL THEN
        BEGIN
            PERFORM set_config('role', as_role, true);
            PERFORM set_config('role', own_role, true);
        EXCEPTION WHEN OTHERS THEN
            problem := format('user "%s" cannot become the role "%s": %s', session_user, as_role, SQLERRM);
            advice := format('create the role if it is missing, and GRANT %I TO %I', as_role, session_user);
            RETURN;
        END;
    END IF;
    caller := coalesce(as_role, current_user);
    BEGIN
        name := parse_ident(callee);
    EXCEPTION WHEN invalid_parameter_value THEN
        NULL;
    END;
    IF cardinality(name) IS DISTINCT FROM 2 THEN
        problem := format('"%s" is not the name of a function with its schema', callee);
        advice := 'write it as schema.function';
        RETURN;
    END IF;
    -- Not with to_regprocedure(), which fails if the caller itself may not use the schema.
    SELECT p.oid INTO routine
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = name[1] AND p.proname = name[2]
      AND p.pronargs = 1 AND p.proargtypes[0] = 'inbox.messages'::regtype;
    IF routine IS NULL THEN
        SELECT string_agg(p.oid::regprocedure::text, ', ' ORDER BY p.oid) AS others INTO found
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = name[1] AND p.proname = name[2];
        problem := format('there is no function %s(%s)', callee, 'inbox.messages'::regclass)
                   || coalesce(', but ' || found.others, '');
        advice := format('create it: its only parameter is a row of the view %s, and it returns void or jsonb',
                         'inbox.messages'::regclass);
        RETURN;
    END IF;
    SELECT p.prokind, p.proretset, p.prorettype::regtype AS returns INTO found FROM pg_proc p WHERE p.oid = routine;
    IF found.prokind <> 'f' OR found.proretset OR found.returns NOT IN ('void'::regtype, 'jsonb'::regtype) THEN
        problem := format('%s is not a function that returns void or jsonb', routine)
                   || CASE WHEN found.prokind = 'f' THEN format(': it returns %s%s',
                               CASE WHEN found.proretset THEN 'SETOF ' ELSE '' END, found.returns) ELSE '' END;
        advice := 'create a function that returns void, or jsonb, which becomes the result of the message';
    ELSIF NOT has_schema_privilege(caller, name[1], 'USAGE') THEN
        problem := format('the role "%s" may not use the schema of %s', caller, routine);
        advice := format('GRANT USAGE ON SCHEMA %I TO %I', name[1], caller);
    ELSIF NOT has_function_privilege(caller, routine, 'EXECUTE') THEN
        problem := format('the role "%s" may not execute %s', caller, routine);
        advice := format('GRANT EXECUTE ON FUNCTION %s TO %I', routine, caller);
    END IF;
END $$;

-- Calls a SQL handler for one message, in a subtransaction of its own, and marks the row processed in it. The caller must
-- commit: the effects of the function and the mark become visible together.
-- own_id, claim_seq, claim_count: the claim. behind: the seq of the message that precedes this one in its lane and in this
-- transaction; NULL: none. limit_ms: no call begins when the transaction is older. path: the search_path for the function.
-- status: done; lost: the claim is gone; skipped: the message before it is
-- not done, or the transaction is too old, so this one was not tried; timeout: the statement was cancelled; dead, snooze: the
-- function raised IB100 or IB101; retry: it raised another error. Nothing is left of the effects unless the status is done.
-- Errors that the message did not cause are a snooze, as docs/handlers.md advises handlers: lost connections to other servers
-- (class 08), serialization failures and deadlocks (40), missing resources (53), locks and objects that others hold (55P03, 55006).
-- inboxd itself limits the wait for a lock (lock_timeout).
--
-- The role and the search_path are those of the function only while it runs. set_config() is qualified, because the function
-- can leave any search_path behind. It can also leave another role of the session (SET ROLE) and another statement_timeout
-- behind, which are set back. Its other settings last until the end of the transaction.
CREATE OR REPLACE FUNCTION inbox.call_handler(own_id int, claim_seq bigint, claim_count int, behind bigint,
    handler_name text, callee text, as_role text, limit_ms bigint, path text,
    OUT status text, OUT error_code text, OUT error text, OUT delay_ms bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    own_role text := current_setting('role');
    own_timeout text := current_setting('statement_timeout');
    name text[] := parse_ident(callee);
    call text := format('SELECT %I.%I($1)::text', name[1], name[2]);
    message inbox.messages;
    outcome text;
    detail text;
    completed boolean := false;
BEGIN
    IF clock_timestamp() > now() + limit_ms * interval '1 millisecond'
       OR (behind IS NOT NULL AND NOT EXISTS (SELECT FROM inbox.inbox_messages m
                                              WHERE m.seq = behind AND m.processed_at IS NOT NULL)) THEN
        status := 'skipped';
        RETURN;
    END IF;
    SELECT v.* INTO message FROM inbox.messages v
    WHERE v.seq = claim_seq AND v.claimed_by = own_id AND v.delivery_count = claim_count
      AND v.processed_at IS NULL AND v.dead_at IS NULL AND v.available_at IS NULL;
    IF NOT FOUND THEN
        status := 'lost';
        RETURN;
    END IF;
    BEGIN
        PERFORM set_config('inboxd.claim', concat_ws('.', claim_seq, claim_count, own_id), true),
                set_config('inboxd.traceparent', '', true), set_config('inboxd.request', '', true),
                set_config('role', coalesce(as_role, own_role), true), set_config('search_path', path, true),
                set_config('enable_seqscan', NULL, true), set_config('jit', NULL, true);
        EXECUTE call INTO outcome USING message;
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
                pg_catalog.set_config('role', own_role, false),
                pg_catalog.set_config('statement_timeout', own_timeout, true),
                pg_catalog.set_config('enable_seqscan', 'off', true);
        UPDATE inbox.inbox_messages m
        SET processed_at = now(),
            handler = handler_name,
            result = CASE WHEN octet_length(outcome) > 1048576
                          THEN to_jsonb('result not stored: it is longer than 1048576 bytes'::text)
                          ELSE nullif(nullif(outcome, ''), 'null')::jsonb END,
            crash_count = greatest(m.crash_count - m.suspect::int, 0),
            suspect = false
        WHERE m.seq = claim_seq AND m.claimed_by = own_id AND m.delivery_count = claim_count
          AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL;
        IF NOT FOUND THEN
            -- now() is the time of this transaction, so the function itself has completed the message.
            completed := EXISTS (SELECT FROM inbox.inbox_messages m
                                 WHERE m.seq = claim_seq AND m.claimed_by = own_id AND m.delivery_count = claim_count
                                   AND m.processed_at = now());
            RAISE EXCEPTION 'the claim of the message is lost' USING ERRCODE = 'IB001';
        END IF;
        -- If the function has changed it with SET, this value is valid until the end of the transaction. Otherwise the one
        -- above would be, and the next message would be called with it.
        PERFORM pg_catalog.set_config('search_path', path, true);
        status := 'done';
        RETURN;
    EXCEPTION WHEN OTHERS OR query_canceled OR assert_failure THEN
        GET STACKED DIAGNOSTICS error_code = RETURNED_SQLSTATE, error = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    END;
    IF completed THEN
        status := 'retry';
        error_code := 'PROTOCOL';
        error := format('%s calls inbox.complete() for its own message: remove the call, because inboxd completes the message '
                        'when the function returns; the function can return a result as jsonb', callee);
        RETURN;
    END IF;
    error := left(error, 1000);
    status := CASE WHEN error_code = 'IB001' THEN 'lost'
                   WHEN error_code = 'IB100' THEN 'dead'
                   WHEN error_code = 'IB101' OR error_code IN ('55P03', '55006') OR left(error_code, 2) IN ('08', '40', '53') THEN 'snooze'
                   WHEN error_code = '57014' THEN 'timeout'
                   ELSE 'retry' END;
    IF status = 'timeout' THEN
        error_code := 'TIMEOUT';
    ELSIF status = 'snooze' AND error_code <> 'IB101' THEN
        delay_ms := 1000;
    ELSIF status = 'snooze' AND detail <> '' THEN
        BEGIN
            delay_ms := greatest(least(extract(epoch FROM detail::interval) * 1000, 31622400000), 0);
        EXCEPTION WHEN data_exception THEN
            status := 'retry';
            error_code := 'PROTOCOL';
            error := format('the DETAIL of SQLSTATE IB101 is no interval: %L', left(detail, 100));
        END;
    END IF;
END $$;
