-- The rules of HTTP for requests with a key, for middlewares in any language: the header Idempotency-Key, the answers to copies
-- that do not run, and which responses are stored (docs/idempotency-keys.md). The work is that of request_begin() and
-- request_complete(), in one transaction.
--
-- Each expression of plpgsql is prepared once in each transaction, so there are few. As in requests.sql, the helpers have no SET
-- search_path; they are inserted into their callers.

-- The key in a header: a string of RFC 8941, or a bare value, as most clients send it. NULL: there is none.
CREATE OR REPLACE FUNCTION inbox.http_request_key(header text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN header ~ E'^[!\\u0023-\\u002b\\u002d-\\u007e]+$' THEN header
        WHEN header ~ E'^"([ !\\u0023-\\u005b\\u005d-\\u007e]|\\\\["\\\\])+"$'
            THEN regexp_replace(substr(header, 2, length(header) - 2), E'\\\\(.)', E'\\1', 'g') END
$$;

-- The body of an answer as RFC 9457 describes it.
CREATE OR REPLACE FUNCTION inbox.http_problem(status int, type text, detail text) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT convert_to(json_build_object(
        'type', type, 'title', CASE status WHEN 400 THEN 'Bad Request' WHEN 409 THEN 'Conflict' ELSE 'Unprocessable Content' END,
        'status', status, 'detail', detail)::text, 'UTF8')
$$;

CREATE OR REPLACE FUNCTION inbox.http_date(moment timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT to_char(moment AT TIME ZONE 'UTC', 'Dy, DD Mon YYYY HH24:MI:SS "GMT"')
$$;

-- Begins a request of HTTP in this transaction. verdict 'started': run it, then call http_request_complete() with the token. With
-- each other verdict, roll back and answer with status, headers and body: 'replay', 'busy', 'mismatch' and 'lost' are those of
-- request_begin(), 'invalid' is a header without a key.
-- header is the value of Idempotency-Key as it came, NULL without one; several are joined with ', '. target is the path with its
-- query, content the body of the request. Not required: a request without a header is 'started', and its token is NULL.
-- A lease that ended without a result is 'lost', and so is an attempt that failed and left a recovery point: the program runs in one
-- transaction and does not know the recovery points of that attempt, so an operator decides.
-- IB010: an argument is wrong, and the message names it.
CREATE OR REPLACE FUNCTION inbox.http_request_begin(header text, method text, target text, content bytea, scope text DEFAULT '',
    keep interval DEFAULT '24 hours', required boolean DEFAULT true, OUT verdict text, OUT token text, OUT status int,
    OUT headers jsonb, OUT body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key text := inbox.http_request_key(btrim(header, E' \t'));
    operation text;
    begun record;
BEGIN
    IF key IS NULL OR length(key) > 255 THEN
        IF header IS NULL AND NOT required THEN
            verdict := 'started';
            RETURN;
        END IF;
        verdict := 'invalid';
        status := 400;
        headers := '{"content-type": "application/problem+json"}';
        body := inbox.http_problem(status, CASE WHEN header IS NULL THEN 'key-missing' ELSE 'key-invalid' END,
            'send the header Idempotency-Key once, with a text of 1 to 255 printable characters');
        RETURN;
    END IF;
    operation := method || ' ' || split_part(target, '?', 1);
    -- As request_digest() makes it. A character has up to 4 bytes, and an operation up to 128.
    begun := inbox.request_begin(key, sha256(convert_to(method || ' ' || target || E'\n', 'UTF8') || coalesce(content, '')), scope,
        left(operation, CASE octet_length(operation) WHEN length(operation) THEN 128 ELSE 32 END), keep => keep,
        lost => 'refuse');
    verdict := CASE WHEN begun.verdict = 'started' AND begun.point IS NOT NULL THEN 'lost' ELSE begun.verdict END;
    IF verdict = 'started' THEN
        token := begun.token;
        RETURN;
    ELSIF verdict = 'replay' THEN
        status := begun.status;
        headers := coalesce(begun.headers, '{}')
                   || jsonb_build_object('idempotency-expires', inbox.http_date(begun.expires_at), 'idempotent-replayed', 'true');
        body := coalesce(begun.body, '');
        RETURN;
    END IF;
    status := CASE verdict WHEN 'mismatch' THEN 422 ELSE 409 END;
    headers := jsonb_strip_nulls(jsonb_build_object(
        'content-type', 'application/problem+json',
        'retry-after', CASE verdict WHEN 'busy' THEN greatest(ceil(extract(epoch FROM begun.retry_after)), 1)::int::text END));
    body := CASE verdict
        WHEN 'busy' THEN inbox.http_problem(status, 'request-outstanding', 'a request with this key runs at this moment; send it again later')
        WHEN 'lost' THEN inbox.http_problem(status, 'outcome-unknown', 'nobody knows how far the request with this key came; ask the operator')
        ELSE inbox.http_problem(status, 'key-reused', 'this key was used for another request; use a new key for each request') END;
END $$;

-- Ends a request of HTTP with the response of the program. commits: the response is stored, so commit, and then send it with the
-- header Idempotency-Expires, if expires is given. Otherwise roll back, and then send it: nothing has happened, and the next copy
-- of the request runs.
-- headers is an object; a value is a text or an array of texts. Those of one connection or one client are not stored. Without a
-- token there is nothing to store, and the effects of the request commit unless it failed.
-- IB010, IB011, 40001: as request_complete(). 25P02: a statement of the program had failed; roll back.
CREATE OR REPLACE FUNCTION inbox.http_request_complete(token text, status int, headers jsonb DEFAULT NULL, body bytea DEFAULT NULL,
    OUT commits boolean, OUT expires text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stored jsonb;
BEGIN
    commits := coalesce(status < 500, true) AND (token IS NULL OR coalesce(status <> ALL ('{401,403,408,409,425,429}'), true));
    IF token IS NULL OR NOT commits THEN
        RETURN;
    END IF;
    -- Also not stored: what the server makes for each answer.
    SELECT jsonb_object_agg(h.name, h.value) INTO stored
    FROM (SELECT lower(e.key COLLATE "C") AS name, string_agg(v.value, ', ') AS value
          FROM jsonb_each(headers) e,
               jsonb_array_elements_text(CASE jsonb_typeof(e.value) WHEN 'array' THEN e.value ELSE jsonb_build_array(e.value) END) v
          WHERE v.value IS NOT NULL
          GROUP BY 1) h
    WHERE h.name <> ALL (inbox.unstored_headers() || '{content-length,date}');
    PERFORM inbox.request_complete(token, status, body, stored);
    IF starts_with(token, 't') THEN
        expires := inbox.http_date('epoch'::timestamptz + split_part(token, '.', 4)::bigint * interval '1 microsecond');
    END IF;
END $$;
