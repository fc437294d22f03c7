-- Requests that may be sent twice: begin, complete, fail, extend. In one transaction, or with a lease (docs/adr/0032).

-- Raises IB010: an argument is wrong, and the message names it. words NULL: none is wrong.
CREATE OR REPLACE FUNCTION inbox.refuse_request(caller text, words text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF words IS NOT NULL THEN
        RAISE EXCEPTION '%', 'inbox' || '.' || caller || ': ' || words USING ERRCODE = 'IB010';
    END IF;
END $$;

-- Raises IB011: the request belongs to another attempt now, or to another transaction.
CREATE OR REPLACE FUNCTION inbox.request_is_lost(caller text, words text, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '%', 'inbox' || '.' || caller || ': the token is lost: ' || words
        USING ERRCODE = 'IB011', HINT = 'Roll back. ' || hint;
END $$;

-- Helpers that run for each request have no SET search_path. Only functions that have one call them, and to set it again
-- would cost more than some of them do. The planner inserts those that are one expression into their callers. PL/pgSQL prepares
-- each expression anew in each transaction, so there are few.

-- What is wrong with the name of a request, the argument first; NULL = nothing.
CREATE OR REPLACE FUNCTION inbox.request_name_fault(key text, scope text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN coalesce(key, '') = '' THEN CASE WHEN key IS NULL THEN 'key is NULL' ELSE 'key is empty' END || '; it must be given'
        WHEN octet_length(key) > 255 THEN format('key has %s bytes; the limit is 255', octet_length(key))
        WHEN key ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN 'key has a control character'
        WHEN scope IS NULL THEN 'scope is NULL; without a scope it is an empty text'
        WHEN octet_length(scope) > 255 THEN format('scope has %s bytes; the limit is 255', octet_length(scope))
        END
$$;

CREATE OR REPLACE FUNCTION inbox.request_fault(fingerprint bytea, operation text, lease interval, keep interval,
    lost text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN octet_length(fingerprint) > 255 THEN format('fingerprint has %s bytes; the limit is 255; a digest has 32', octet_length(fingerprint))
        WHEN operation IS NULL THEN 'operation is NULL; without an operation it is an empty text'
        WHEN octet_length(operation) > 128 THEN format('operation has %s bytes; the limit is 128', octet_length(operation))
        WHEN lease NOT BETWEEN '1 second' AND '1 hour' THEN format('lease is %s; it is from 1 second to 1 hour', lease)
        WHEN keep IS NULL OR keep NOT BETWEEN '1 minute' AND '90 days'
            THEN format('keep is %s; it is from 1 minute to 90 days', coalesce(keep::text, 'NULL'))
        WHEN lost IS NULL OR lost NOT IN ('rerun', 'refuse')
            THEN format('lost is %s; it is rerun or refuse', coalesce(quote_literal(left(lost, 80)), 'NULL'))
        END
$$;

CREATE OR REPLACE FUNCTION inbox.response_fault(status int, body bytea) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN status IS NULL OR status NOT BETWEEN 100 AND 599
            THEN format('status is %s; it is from 100 to 599', coalesce(status::text, 'NULL'))
        WHEN octet_length(body) > 1048576
            THEN format('body has %s bytes; the limit is 1048576; store a reference to a larger one', octet_length(body))
        END
$$;

-- The names of headers that belong to one connection, or, like cookies, to one client and not to all copies of a request.
CREATE OR REPLACE FUNCTION inbox.unstored_headers() RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT '{connection,keep-alive,proxy-authenticate,proxy-authorization,proxy-connection,set-cookie,set-cookie2,te,trailer,'
           'transfer-encoding,upgrade}'::text[]
$$;

-- What is wrong with the headers of a response; NULL = nothing. A line break in a value would begin another header. The names are
-- ASCII: with the rules of Turkish, I would not become i.
CREATE OR REPLACE FUNCTION inbox.response_headers_fault(headers jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    fault text;
BEGIN
    IF octet_length(headers::text) > 16384 THEN
        RETURN format('headers has %s bytes; the limit is 16384', octet_length(headers::text));
    ELSIF jsonb_typeof(headers) <> 'object' THEN
        RETURN format('headers is a %s; it must be an object of texts', jsonb_typeof(headers));
    END IF;
    SELECT CASE
        WHEN h.key !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]+$' THEN format('headers has %L, which is no name of a header', left(h.key, 80))
        WHEN jsonb_typeof(h.value) <> 'string'
            THEN format('headers has %s with a %s; a value is a text', left(h.key, 80), jsonb_typeof(h.value))
        WHEN h.value #>> '{}' ~ E'[\\u0001-\\u0008\\u000a-\\u001f\\u007f]'
            THEN format('headers has %s with a control character in its value', left(h.key, 80))
        WHEN lower(h.key COLLATE "C") = ANY (inbox.unstored_headers())
            THEN format('headers has %s; it belongs to one connection or one client, so it is not stored', left(h.key, 80)) END
    INTO fault
    FROM jsonb_each(headers) h
    ORDER BY 1 NULLS LAST
    LIMIT 1;
    RETURN fault;
END $$;

-- True: response_fault() and response_headers_fault() find nothing. The regular expression is for the text of the headers, in which
-- quotes and control characters of a value are escaped.
CREATE OR REPLACE FUNCTION inbox.response_is_right(status int, body bytea, headers jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(status BETWEEN 100 AND 599 AND coalesce(octet_length(body), 0) <= 1048576
        AND (headers IS NULL OR octet_length(headers::text) <= 16384
             AND headers::text ~ E'^\\{("[-!#$%&''*+.^_`|~0-9A-Za-z]+": "([^"\\\\\\u007f]|\\\\["\\\\t])*"(, )?)*\\}$'
             AND NOT lower(headers::text COLLATE "C")::jsonb ?| inbox.unstored_headers()), false)
$$;

-- The advisory lock of a request. Two requests can have the same number; one of them is then busy for no reason.
CREATE OR REPLACE FUNCTION inbox.request_lock(scope text, key text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT hashtextextended(concat_ws(' ', 'inboxd request', 'inbox.requests'::regclass::oid, length(scope), scope, key), 0)
$$;

-- True: the digits are within the type bigint.
CREATE OR REPLACE FUNCTION inbox.is_bigint(digits text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT length(digits) < 20 AND lpad(digits, 19, '0') COLLATE "C" <= '9223372036854775807'
$$;

-- The parts of a token; NULL = it is none. In one transaction: 't', the transaction, the attempt, expires_at in microseconds,
-- the holder of the row that it replaces (empty = none), scope, key, operation, fingerprint, if there is one. Leased: 'l', the
-- holder, scope, key. Texts are hexadecimal. Numbers are within the types to which callers cast them. In the regular
-- expression their lengths would cost more than the rest of it.
CREATE OR REPLACE FUNCTION inbox.request_token(token text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN token ~ '^(t([.][0-9]+){3}[.][0-9]*([.]([0-9a-f]{2})*){3,4}|l[.][0-9]+([.]([0-9a-f]{2})*){2})$'
                     AND CASE split_part(token, '.', 1)
                         WHEN 'l' THEN inbox.is_bigint(split_part(token, '.', 2))
                         ELSE length(split_part(token, '.', 3)) < 10 AND length(split_part(token, '.', 4)) < 18
                              AND inbox.is_bigint(split_part(token, '.', 5)) END
                THEN string_to_array(token, '.') END
$$;

-- Raises IB010: the token is none.
CREATE OR REPLACE FUNCTION inbox.refuse_token(caller text, token text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inbox.refuse_request(caller, format('token is %s; pass the one that request_begin() returned, unchanged',
                                                coalesce(quote_literal(left(token, 80)), 'NULL')));
END $$;

-- Stores the row of a request, in place of the one that request_begin() saw, of which `seen` is the holder (NULL = there was
-- none). False: there is another one by now. If the snapshot is older than the other row, PostgreSQL raises 40001.
CREATE OR REPLACE FUNCTION inbox.put_request(made inbox.requests, seen bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF seen IS NULL THEN
        INSERT INTO inbox.requests SELECT made.* ON CONFLICT (key, scope) DO NOTHING;
        RETURN FOUND;
    END IF;
    UPDATE inbox.requests r
    SET operation = made.operation, fingerprint = made.fingerprint, holder = made.holder, attempt = made.attempt,
        locked_until = made.locked_until, point = made.point, failed_at = NULL, error = NULL,
        completed_at = made.completed_at, status = made.status, headers = made.headers, body = made.body,
        created_at = CASE WHEN made.attempt > 1 THEN r.created_at ELSE made.created_at END, expires_at = made.expires_at
    WHERE r.key = made.key AND r.scope = made.scope AND r.holder = seen
      AND CASE WHEN r.completed_at IS NULL THEN coalesce(r.locked_until, '-infinity') ELSE r.expires_at END <= clock_timestamp();
    RETURN FOUND;
END $$;

-- Begins a request. verdict: 'started' = run it, then call request_complete() with the token; 'replay' = answer with status,
-- headers and body; 'busy' = another copy runs, try again after retry_after; 'mismatch' = the key was used for another request;
-- 'lost' = only with lost => 'refuse': an attempt ended without a result, and nobody knows how far it came.
-- Without lease the request runs in this transaction. With lease the caller commits, and has the time of the lease.
-- IB010: an argument is wrong, and the message names it.
--
-- Without lease the advisory lock ends with the transaction, whatever happens, and only request_complete() writes. The lock is
-- taken first and the row is read in a second statement, because the snapshot of the first one can be older than the commit that
-- freed the lock. Whoever does not get the lock reads, too: beside the first replay, the others are replays as well.
CREATE OR REPLACE FUNCTION inbox.request_begin(key text, fingerprint bytea, scope text DEFAULT '', operation text DEFAULT '',
    lease interval DEFAULT NULL, keep interval DEFAULT '24 hours', lost text DEFAULT 'rerun', OUT verdict text,
    OUT token text, OUT attempt int, OUT point text, OUT status int, OUT headers jsonb, OUT body bytea,
    OUT retry_after interval, OUT expires_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    fault text := coalesce(inbox.request_name_fault(key, scope), inbox.request_fault(fingerprint, operation, lease, keep, lost));
    locked boolean;
    looked_at timestamptz;
    earlier inbox.requests;
    made inbox.requests;
BEGIN
    IF fault IS NOT NULL THEN
        PERFORM inbox.refuse_request('request_begin', fault);
    END IF;
    locked := pg_try_advisory_xact_lock(inbox.request_lock(scope, key));
    SELECT r.* INTO earlier FROM inbox.requests r
    WHERE r.key = request_begin.key AND r.scope = request_begin.scope;
    looked_at := clock_timestamp();
    attempt := 1;
    IF earlier.expires_at > looked_at THEN
        expires_at := earlier.expires_at;
        attempt := earlier.attempt;
        point := earlier.point;
        IF earlier.operation <> operation OR earlier.fingerprint <> fingerprint THEN
            verdict := 'mismatch';
        ELSIF earlier.completed_at IS NOT NULL THEN
            verdict := 'replay';
            status := earlier.status;
            headers := earlier.headers;
            body := earlier.body;
        ELSIF earlier.locked_until > looked_at THEN
            verdict := 'busy';
            retry_after := earlier.locked_until - looked_at;
        ELSIF earlier.locked_until IS NOT NULL AND lost = 'refuse' THEN
            verdict := 'lost';
        ELSE
            attempt := earlier.attempt + 1;
        END IF;
    END IF;
    IF verdict IS NOT NULL THEN
        RETURN;
    END IF;
    -- The holder of a lease that is over may be completing at this moment, or may have set its point since the row was read.
    -- So the function uses the values of the locked row, which stays locked for this transaction.
    IF locked AND earlier.key IS NOT NULL THEN
        SELECT r.* INTO earlier FROM inbox.requests r
        WHERE r.key = request_begin.key AND r.scope = request_begin.scope AND r.holder = earlier.holder
          AND r.attempt = earlier.attempt AND r.completed_at IS NOT DISTINCT FROM earlier.completed_at
          AND r.locked_until IS NOT DISTINCT FROM earlier.locked_until
        FOR NO KEY UPDATE SKIP LOCKED;
        locked := FOUND;
        point := CASE WHEN attempt > 1 THEN earlier.point END;
    END IF;
    IF NOT locked THEN
        verdict := 'busy';
        retry_after := '1 second';
        RETURN;
    END IF;
    verdict := 'started';
    expires_at := looked_at + greatest(keep, lease);
    IF lease IS NULL THEN
        -- The events of this transaction have the request as their cause (origin()).
        token := set_config('inboxd.request', concat_ws('.', 't', pg_current_xact_id(), attempt,
            (extract(epoch FROM expires_at) * 1000000)::bigint, coalesce(earlier.holder::text, ''),
            encode(convert_to(scope, 'UTF8'), 'hex'), encode(convert_to(key, 'UTF8'), 'hex'),
            encode(convert_to(operation, 'UTF8'), 'hex'), encode(fingerprint, 'hex')), true);
        RETURN;
    END IF;
    made.scope := scope;
    made.key := key;
    made.operation := operation;
    made.fingerprint := fingerprint;
    made.holder := ('x' || translate(left(gen_random_uuid()::text, 17), '-', ''))::bit(60)::bigint + 1;
    made.attempt := attempt;
    made.locked_until := looked_at + lease;
    made.point := point;
    made.created_at := looked_at;
    made.expires_at := expires_at;
    IF NOT inbox.put_request(made, earlier.holder) THEN
        PERFORM inbox.request_is_lost('request_begin', 'another attempt began', 'Begin again in another transaction.');
    END IF;
    token := concat_ws('.', 'l', made.holder, encode(convert_to(scope, 'UTF8'), 'hex'), encode(convert_to(key, 'UTF8'), 'hex'));
END $$;

-- Says that a lease belongs to another attempt.
CREATE OR REPLACE FUNCTION inbox.lease_is_lost(caller text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inbox.request_is_lost(caller, 'another attempt began after the end of the lease, or the request has ended',
                                  'The request belongs to the other attempt now; request_begin() says what became of it.');
END $$;

-- The parts of a token with a lease. IB010: it is of another kind.
CREATE OR REPLACE FUNCTION inbox.lease_token(caller text, token text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part text[] := inbox.request_token(token);
BEGIN
    IF part IS NULL THEN
        PERFORM inbox.refuse_token(caller, token);
    ELSIF part[1] <> 'l' THEN
        PERFORM inbox.refuse_request(caller, 'token is of a request without a lease; roll back its transaction instead');
    END IF;
    RETURN part;
END $$;

CREATE OR REPLACE FUNCTION inbox.unhex(part text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT convert_from(decode(part, 'hex'), 'UTF8')
$$;

-- Completes a request and stores its response, byte for byte, in the transaction of the effects.
-- IB010: an argument is wrong. IB011: the token is of another transaction, or another attempt has the lease: roll back.
-- 40001: the key was completed after the snapshot of this transaction (REPEATABLE READ, SERIALIZABLE): roll back, begin again.
CREATE OR REPLACE FUNCTION inbox.request_complete(token text, status int, body bytea DEFAULT NULL, headers jsonb DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    part text[] := inbox.request_token(token);
    made inbox.requests;
    stored boolean;
BEGIN
    IF part IS NULL THEN
        PERFORM inbox.refuse_token('request_complete', token);
    ELSIF NOT inbox.response_is_right(status, body, headers) THEN
        PERFORM inbox.refuse_request('request_complete',
                                     coalesce(inbox.response_fault(status, body), inbox.response_headers_fault(headers)));
    END IF;
    IF part[1] = 'l' THEN
        UPDATE inbox.requests r
        SET locked_until = NULL, completed_at = clock_timestamp(), status = request_complete.status,
            headers = request_complete.headers, body = request_complete.body
        WHERE r.key = inbox.unhex(part[4]) AND r.scope = inbox.unhex(part[3]) AND r.holder = part[2]::bigint
          AND r.locked_until IS NOT NULL;
        IF NOT FOUND THEN
            PERFORM inbox.lease_is_lost('request_complete');
        END IF;
        RETURN;
    END IF;
    IF part[2] IS DISTINCT FROM pg_current_xact_id_if_assigned()::text THEN
        PERFORM inbox.request_is_lost('request_complete', 'request_begin() was called in another transaction',
            'Without a lease, call both functions between one BEGIN and its COMMIT.');
    END IF;
    -- As put_request(), in one statement: nearly all requests are new.
    IF part[5] = '' THEN
        INSERT INTO inbox.requests (scope, key, operation, fingerprint, holder, attempt, completed_at, status, headers, body,
            created_at, expires_at)
        VALUES (inbox.unhex(part[6]), inbox.unhex(part[7]), inbox.unhex(part[8]), decode(part[9], 'hex'), 0, part[3]::int,
            clock_timestamp(), request_complete.status, request_complete.headers, request_complete.body, now(),
            'epoch'::timestamptz + part[4]::bigint * interval '1 microsecond')
        ON CONFLICT (key, scope) DO NOTHING;
        stored := FOUND;
    ELSE
        made.scope := inbox.unhex(part[6]);
        made.key := inbox.unhex(part[7]);
        made.operation := inbox.unhex(part[8]);
        made.fingerprint := decode(part[9], 'hex');
        made.holder := 0;
        made.attempt := part[3]::int;
        made.completed_at := clock_timestamp();
        made.status := status;
        made.headers := headers;
        made.body := body;
        made.created_at := now();
        made.expires_at := 'epoch'::timestamptz + part[4]::bigint * interval '1 microsecond';
        stored := inbox.put_request(made, part[5]::bigint);
    END IF;
    IF NOT stored THEN
        PERFORM inbox.request_is_lost('request_complete', 'the request was completed already',
                                      'request_begin() returns the response that is stored.');
    END IF;
END $$;

-- Ends an attempt with a lease and without a result. The next request_begin() may run the request again.
CREATE OR REPLACE FUNCTION inbox.request_fail(token text, reason text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    part text[] := inbox.lease_token('request_fail', token);
BEGIN
    UPDATE inbox.requests r
    SET locked_until = NULL, failed_at = clock_timestamp(), error = left(reason, 1000)
    WHERE r.key = inbox.unhex(part[4]) AND r.scope = inbox.unhex(part[3]) AND r.holder = part[2]::bigint
      AND r.locked_until IS NOT NULL;
    IF NOT FOUND THEN
        PERFORM inbox.lease_is_lost('request_fail');
    END IF;
END $$;

-- Extends the lease to this time from now on, and sets the recovery point. NULL leaves either as it is.
CREATE OR REPLACE FUNCTION inbox.request_extend(token text, lease interval DEFAULT NULL, point text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    part text[] := inbox.lease_token('request_extend', token);
    until timestamptz := clock_timestamp() + lease;
    fault text := CASE
        WHEN lease NOT BETWEEN '1 second' AND '1 hour' THEN format('lease is %s; it is from 1 second to 1 hour', lease)
        WHEN octet_length(point) NOT BETWEEN 1 AND 1024 THEN format('point has %s bytes; it has 1 to 1024', octet_length(point)) END;
BEGIN
    IF fault IS NOT NULL THEN
        PERFORM inbox.refuse_request('request_extend', fault);
    END IF;
    UPDATE inbox.requests r
    SET locked_until = coalesce(until, r.locked_until), point = coalesce(request_extend.point, r.point),
        expires_at = greatest(r.expires_at, until)
    WHERE r.key = inbox.unhex(part[4]) AND r.scope = inbox.unhex(part[3]) AND r.holder = part[2]::bigint
      AND r.locked_until IS NOT NULL;
    IF NOT FOUND THEN
        PERFORM inbox.lease_is_lost('request_extend');
    END IF;
END $$;

-- The fingerprint of a request: SHA-256 of its method, a space, its target, a line feed and its body.
CREATE OR REPLACE FUNCTION inbox.request_digest(method text, target text, body bytea) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(method !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]+$', true) THEN
        PERFORM inbox.refuse_request('request_digest', format('method is %s; it is a method of HTTP, such as POST',
                                                              coalesce(quote_literal(left(method, 80)), 'NULL')));
    ELSIF coalesce(target, '') = '' OR target ~ E'[\\u0001-\\u0020\\u007f]' THEN
        PERFORM inbox.refuse_request('request_digest', format('target is %s; it is a path with its query, without spaces',
                                                              coalesce(quote_literal(left(target, 80)), 'NULL')));
    END IF;
    RETURN sha256(convert_to(method || ' ' || target || E'\n', 'UTF8') || coalesce(body, ''));
END $$;

-- Forgets a request, for operators: the next one with its key runs. An attempt that still has a lease gets IB011 when it
-- completes. False: there is no such request, or a transaction is completing it at this moment. seen: the request as
-- request_states had it; the function forgets it only if it is still of this attempt and in this state.
CREATE OR REPLACE FUNCTION inbox.request_forget(scope text, key text, reason text, seen jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    fault text := inbox.request_name_fault(key, scope);
BEGIN
    IF fault IS NOT NULL THEN
        PERFORM inbox.refuse_request('request_forget', fault);
    END IF;
    WITH free AS MATERIALIZED (
        SELECT r.key, r.scope FROM inbox.requests r
        WHERE r.key = request_forget.key AND r.scope = request_forget.scope
          AND (seen IS NULL OR (r.attempt, r.created_at, r.completed_at, r.failed_at) IS NOT DISTINCT FROM (
                  (seen ->> 'attempt')::int, (seen ->> 'created_at')::timestamptz, (seen ->> 'completed_at')::timestamptz,
                  (seen ->> 'failed_at')::timestamptz))
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM inbox.requests r USING free WHERE r.key = free.key AND r.scope = free.scope;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM inbox.audit('request_forget', jsonb_build_object('scope', scope, 'key', key), reason, 1);
    RETURN true;
END $$;

-- The result of a message: what its handler stored. No status: the table does not have the message. If the table has the
-- event with another source or for another consumer, a notice names these. The source of an event from an outbox is not the
-- topic.
CREATE OR REPLACE FUNCTION inbox.result(source text, event_id text, consumer text DEFAULT '', OUT status text,
    OUT result jsonb, OUT processed_at timestamptz, OUT error text, OUT error_code text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    others text;
BEGIN
    SELECT m.status, m.result, m.processed_at, m.error, m.error_code INTO status, result, processed_at, error, error_code
    FROM inbox.messages m WHERE m.source = $1 AND m.event_id = $2 AND m.consumer = $3;
    IF NOT FOUND THEN
        SELECT m.status, m.result, m.processed_at, m.error, m.error_code INTO status, result, processed_at, error, error_code
        FROM inbox.messages m
        WHERE m.source = $1 AND m.event_id = $2 AND inbox.present_name(m.consumer) = inbox.present_name($3);
    END IF;
    IF NOT FOUND THEN
        others := inbox.where_else(event_id);
    END IF;
    IF others IS NOT NULL THEN
        RAISE NOTICE '%', format('inbox' || '.result: there is no event %L of source %L for %s', event_id, source,
            CASE consumer WHEN '' THEN 'the consumer without a name' ELSE format('consumer %L', consumer) END)
            USING HINT = format('The inbox has this event id with %s.', others);
    END IF;
END $$;
