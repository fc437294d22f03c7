-- Completion inside the handler's own transaction.

-- Completes a message inside the handler's own transaction: its effects and the completion commit together or not
-- at all. `claim` is the claim of the delivery, 'seq.delivery_count.instance'.
-- IB001: the claim is lost, roll back. IB002: the text is not a claim.
-- The owner of the schema may call it, and every role with EXECUTE. Readers of the table can see claims.
CREATE OR REPLACE FUNCTION inbox.complete(claim text, result jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part numeric[] := regexp_match(claim, '^([0-9]{1,19})\.([0-9]{1,10})\.([0-9]{1,10})$')::numeric[];
BEGIN
    IF part IS NULL OR part[1] > 9223372036854775807
       OR part[2] > 2147483647 OR part[3] > 2147483647 THEN
        RAISE EXCEPTION 'inbox.complete: % is not a claim', coalesce(quote_literal(left(claim, 80)), 'NULL')
            USING ERRCODE = 'IB002',
                  HINT = 'Pass the text in params.delivery.claim of the delivery, unchanged.';
    END IF;
    UPDATE inbox.inbox_messages m
    SET processed_at = now(),
        result = complete.result,
        crash_count = greatest(m.crash_count - m.suspect::int, 0),
        suspect = false
    WHERE m.seq = part[1]::bigint AND m.delivery_count = part[2]::int AND m.claimed_by = part[3]::int
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'inbox.complete: claim % is lost', claim
            USING ERRCODE = 'IB001',
                  DETAIL = 'The message was completed already, timed out, or belongs to another delivery now.',
                  HINT = 'Roll back: the effects of this transaction belong to whoever holds the claim.';
    END IF;
END $$;
