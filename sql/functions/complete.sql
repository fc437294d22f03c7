-- Completion inside the handler's own transaction.

-- The three numbers of a claim, 'seq.delivery_count.instance'. IB002: the text is not a claim.
CREATE OR REPLACE FUNCTION inbox.claim_parts(claim text) RETURNS numeric[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part numeric[] := regexp_match(claim, '^([0-9]{1,19})[.]([0-9]{1,10})[.]([0-9]{1,10})$')::numeric[];
BEGIN
    IF part IS NULL OR part[1] > 9223372036854775807
       OR part[2] > 2147483647 OR part[3] > 2147483647 THEN
        RAISE EXCEPTION 'inbox.complete: % is not a claim', coalesce(quote_literal(left(claim, 80)), 'NULL')
            USING ERRCODE = 'IB002',
                  HINT = 'Pass the text in params.delivery.claim of the delivery, unchanged.'
                         || CASE WHEN claim LIKE '{%' THEN ' An array of claims needs a cast: $1::text[].' ELSE '' END;
    END IF;
    RETURN part;
END $$;

-- Says that a claim is gone.
CREATE OR REPLACE FUNCTION inbox.claim_is_lost(claim text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'inbox.complete: claim % is lost', claim
        USING ERRCODE = 'IB001',
              DETAIL = 'The message was completed already, timed out, or belongs to another delivery now.',
              HINT = 'Roll back: the effects of this transaction belong to whoever holds the claim.';
END $$;

-- Completes a message inside the handler's own transaction: its effects and the completion commit together or not
-- at all. `claim` is the claim of the delivery.
-- IB001: the claim is lost, roll back. IB002: the text is not a claim.
-- The owner of the schema may call it, and every role with EXECUTE. Readers of the table can see claims.
CREATE OR REPLACE FUNCTION inbox.complete(claim text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Only numbers that may be out of range need the exact check, which costs more than the rest of this function.
    IF (CASE WHEN claim ~ '^[0-9]{1,18}[.][0-9]{1,9}[.][0-9]{1,10}$'
             THEN split_part(claim, '.', 3)::bigint > 2147483647 ELSE true END) THEN
        PERFORM inbox.claim_parts(claim);
    END IF;
    UPDATE inbox.inbox_messages m
    SET processed_at = now(),
        result = complete.result,
        crash_count = greatest(m.crash_count - m.suspect::int, 0),
        suspect = false
    WHERE m.seq = split_part(claim, '.', 1)::bigint AND m.delivery_count = split_part(claim, '.', 2)::int
      AND m.claimed_by = split_part(claim, '.', 3)::int
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL;
    IF NOT FOUND THEN
        PERFORM inbox.claim_is_lost(claim);
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
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
-- would not keep the order. CASE: as in settle_done.
CREATE OR REPLACE FUNCTION inbox.complete(claims text[], results jsonb[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost_claim text;
BEGIN
    IF claims IS NULL THEN
        PERFORM inbox.claim_parts(NULL);
    ELSIF cardinality(results) <> cardinality(claims) THEN
        PERFORM inbox.refuse('complete', 'there are ' || cardinality(claims) || ' claims but '
                             || cardinality(results) || ' results');
    END IF;
    PERFORM inbox.claim_parts(c.claim) FROM unnest(claims) AS c(claim)
    WHERE CASE WHEN c.claim ~ '^[0-9]{1,18}[.][0-9]{1,9}[.][0-9]{1,10}$' -- as in complete() for one claim
               THEN split_part(c.claim, '.', 3)::bigint > 2147483647 ELSE true END;
    WITH given AS MATERIALIZED (
        SELECT split_part(c.claim, '.', 1)::bigint AS seq, split_part(c.claim, '.', 2)::int AS delivery_count,
               split_part(c.claim, '.', 3)::int AS instance, c.place, c.claim, nullif(c.result, 'null') AS result
        FROM ROWS FROM (unnest(claims), unnest(results)) WITH ORDINALITY AS c(claim, result, place)
    ), firsts AS MATERIALIZED (
        SELECT DISTINCT ON (g.seq, g.delivery_count, g.instance) g.* FROM given g
        ORDER BY g.seq, g.delivery_count, g.instance, g.place
    ), held AS MATERIALIZED (
        SELECT m.seq, f.place, f.result
        FROM firsts f JOIN inbox.inbox_messages m ON m.seq = f.seq
        WHERE CASE WHEN m.delivery_count = f.delivery_count AND m.claimed_by = f.instance
                    AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL THEN true END
        ORDER BY m.seq
        FOR NO KEY UPDATE OF m
    ), completed AS (
        UPDATE inbox.inbox_messages m
        SET processed_at = now(),
            result = h.result,
            crash_count = greatest(m.crash_count - m.suspect::int, 0),
            suspect = false
        FROM held h WHERE m.seq = h.seq
        RETURNING h.place
    )
    SELECT g.claim INTO lost_claim FROM given g
    WHERE g.place NOT IN (SELECT c.place FROM completed c)
    ORDER BY g.place LIMIT 1;
    IF FOUND THEN
        PERFORM inbox.claim_is_lost(lost_claim);
    END IF;
END $$;
