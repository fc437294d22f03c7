-- Completion inside the handler's own transaction.

-- The only reader of claims: 'seq.delivery_count.instance[.handler[.tag]]', where handler is a name in base64url. All is NULL if
-- the text is not a claim. The statement that completes a message also compares the tag; a statement of its own for it would
-- take 5 us. An instance with a secret adds a tag, which nobody can guess. An earlier sidecar has no secret and gives neither
-- name nor tag: then the numbers are enough.
-- It has no search_path of its own, which would cost more time: its callers have one.
CREATE OR REPLACE FUNCTION inbox.parse_claim(claim text, OUT seq bigint, OUT delivery_count int, OUT instance int,
    OUT handler text) RETURNS record
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    name text := split_part(claim, '.', 4);
BEGIN
    -- A match with captures would cost more than the rest of complete().
    IF claim IS NULL OR length(claim) > 500 OR claim !~ '^[0-9]+[.][0-9]+[.][0-9]+([.][A-Za-z0-9_-]+){0,2}$'
       OR length(name) % 4 = 1 OR split_part(claim, '.', 1)::numeric > 9223372036854775807
       OR split_part(claim, '.', 2)::numeric > 2147483647 OR split_part(claim, '.', 3)::numeric > 2147483647 THEN
        RETURN;
    END IF;
    IF name <> '' THEN
        handler := inbox.try_text(decode(rpad(translate(name, '-_', '+/'), (length(name) + 3) / 4 * 4, '='), 'base64'));
        IF handler IS NULL THEN
            RETURN;
        END IF;
    END IF;
    seq := split_part(claim, '.', 1);
    delivery_count := split_part(claim, '.', 2);
    instance := split_part(claim, '.', 3);
END $$;

-- The tag of a claim whose text before the tag is `signed`. Only a part of the digest: from a whole one, the digest of a longer
-- text could be computed without the secret. The planner inserts the function into its caller.
CREATE OR REPLACE FUNCTION inbox.claim_tag(secret bytea, signed text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT translate(encode(substr(sha256(secret || convert_to(signed, 'UTF8')), 1, 12), 'base64'), '+/', '-_')
$$;

-- Raises the error of a claim that has completed nothing.
CREATE OR REPLACE FUNCTION inbox.refuse_claim(claim text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (inbox.parse_claim(claim)).seq IS NULL THEN
        RAISE EXCEPTION 'inbox.complete: % is not a claim', coalesce(quote_literal(left(claim, 80)), 'NULL')
            USING ERRCODE = 'IB002',
                  HINT = CASE WHEN claim LIKE 'r.%'
                              THEN 'It begins like the claim of a rehearsal, and this version of inboxd has no rehearsals.'
                              ELSE 'Pass the text in params.delivery.claim of the delivery, unchanged.' END
                         || CASE WHEN claim LIKE '{%' THEN ' An array of claims needs a cast: $1::text[].' ELSE '' END;
    END IF;
    RAISE EXCEPTION 'inbox.complete: claim % is lost', claim
        USING ERRCODE = 'IB001',
              DETAIL = 'The message was completed already, timed out, or belongs to another delivery now.',
              HINT = 'Roll back: the effects of this transaction belong to whoever holds the claim.';
END $$;

-- Completes a message inside the handler's own transaction: its effects and the completion commit together or not
-- at all. `claim` is the claim of the delivery. The row gets the name of the handler at once, so that the settle of the
-- answer only reads it.
-- IB001: the claim is lost, roll back. IB002: the text is not a claim.
--
-- The plan is made once a session, perhaps while the table is empty, and stays until VACUUM or ANALYZE: so no scan of the
-- table, and no join, which could begin with the table.
-- The owner of the schema may call it, and every role with EXECUTE.
CREATE OR REPLACE FUNCTION inbox.complete(claim text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    given record := inbox.parse_claim(claim);
BEGIN
    UPDATE inbox.inbox_messages m
    SET processed_at = now(),
        result = complete.result,
        handler = coalesce(given.handler, m.handler),
        crash_count = greatest(m.crash_count - m.suspect::int, 0),
        suspect = false
    WHERE m.seq = given.seq AND m.delivery_count = given.delivery_count AND m.claimed_by = given.instance
      AND NOT EXISTS (SELECT FROM inbox.inbox_claim_secrets s WHERE s.instance = given.instance
                      AND split_part(claim, '.', 5) <> inbox.claim_tag(s.secret, left(claim, -17)))
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL;
    IF NOT FOUND THEN
        PERFORM inbox.refuse_claim(claim);
    END IF;
END $$;

-- The same with the result as a text of JSON. It decides what complete('…', '{…}') means, whose arguments have no type:
-- without it PostgreSQL could not choose between this function for one message and the one for several. It runs as its
-- caller, who needs the right to call complete(text, jsonb), too.
CREATE OR REPLACE FUNCTION inbox.complete(claim text, result text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM inbox.complete(claim, result::jsonb);
END $$;

-- The same for a handler that also emits events: emit_caused() says what `emit` is. Effects, completion and events commit
-- together or not at all. IB020: an event is wrong, and the message names what.
CREATE OR REPLACE FUNCTION inbox.complete(claim text, result jsonb, emit jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM inbox.complete(claim, result);
    PERFORM inbox.emit_caused(m.seq, m.source, m.event_id, m.consumer, m.replay_count, m.headers,
                              complete.emit)
    FROM inbox.inbox_messages m WHERE m.seq = split_part(claim, '.', 1)::bigint;
END $$;

-- Completes several messages, all or none of them. `results` is NULL or has one element for each claim; NULL and the
-- JSON null mean no result.
-- IB001 names the first claim of the array that is lost. A claim that is in the array twice is lost the second time.
-- IB002 names the first text that is not a claim. An empty array does nothing.
--
-- The rows are locked in the order of seq: otherwise two transactions with the same rows could deadlock. A join alone
-- would not keep the order. CASE: as in settle_done. Like that of the other functions, its plan can be older than the rows. So
-- each use of the table has a list of seqs, and is joined by a hash: with a nested loop, a plan for few rows compares each row of
-- a batch with each other one. The rows are sorted by `seq + 0`, because the index has the order of seq: a plan for few rows
-- could read all of it.
CREATE OR REPLACE FUNCTION inbox.complete(claims text[], results jsonb[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
SET enable_nestloop = off SET enable_mergejoin = off AS $$
DECLARE
    refused text;
BEGIN
    IF claims IS NULL THEN
        PERFORM inbox.refuse_claim(NULL);
    ELSIF cardinality(results) <> cardinality(claims) THEN
        PERFORM inbox.refuse('complete', 'there are ' || cardinality(claims) || ' claims but '
                             || cardinality(results) || ' results');
    END IF;
    WITH given AS MATERIALIZED (
        SELECT r.seq, r.delivery_count, r.instance, r.handler, c.place, c.claim, nullif(c.result, 'null') AS result,
               NOT EXISTS (SELECT FROM inbox.inbox_claim_secrets s WHERE s.instance = r.instance
                           AND split_part(c.claim, '.', 5) <> inbox.claim_tag(s.secret, left(c.claim, -17))) AS genuine
        FROM ROWS FROM (unnest(claims), unnest(results)) WITH ORDINALITY AS c(claim, result, place)
        CROSS JOIN LATERAL inbox.parse_claim(c.claim) r
    ), firsts AS MATERIALIZED (
        SELECT DISTINCT ON (g.seq, g.delivery_count, g.instance) g.* FROM given g
        ORDER BY g.seq, g.delivery_count, g.instance, g.place
    ), held AS MATERIALIZED (
        SELECT m.seq, f.place, f.result, f.handler
        FROM firsts f JOIN inbox.inbox_messages m ON m.seq = f.seq
        WHERE m.seq = ANY (ARRAY(SELECT i.seq FROM firsts i))
          AND CASE WHEN f.genuine AND m.delivery_count = f.delivery_count AND m.claimed_by = f.instance
                    AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL THEN true END
        ORDER BY m.seq + 0
        FOR NO KEY UPDATE OF m
    ), completed AS (
        UPDATE inbox.inbox_messages m
        SET processed_at = now(),
            result = h.result,
            handler = coalesce(h.handler, m.handler),
            crash_count = greatest(m.crash_count - m.suspect::int, 0),
            suspect = false
        FROM held h WHERE m.seq = h.seq AND m.seq = ANY (ARRAY(SELECT i.seq FROM held i))
        RETURNING h.place
    )
    SELECT g.claim INTO refused FROM given g
    WHERE g.place NOT IN (SELECT c.place FROM completed c)
    ORDER BY g.seq IS NOT NULL, g.place LIMIT 1;
    IF FOUND THEN
        PERFORM inbox.refuse_claim(refused);
    END IF;
END $$;
