-- Records of operators' actions: inbox_audit, and the history of each message (inbox_messages.attempts).

-- Every function that changes something for an operator calls this.
CREATE OR REPLACE FUNCTION inbox.audit(action text, filter jsonb, reason text, affected bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO inbox.inbox_audit (action, filter, reason, affected)
    VALUES (audit.action, audit.filter, audit.reason, audit.affected)
$$;

-- Appends an entry to a message's history. The history keeps the last ten failed attempts, and the last ten
-- actions of operators.
CREATE OR REPLACE FUNCTION inbox.remember(attempts jsonb, entry jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_agg(h.entry ORDER BY h.n)
    FROM (SELECT e.entry, e.n, row_number() OVER (PARTITION BY e.entry ? 'attempt' ORDER BY e.n DESC) AS age
          FROM jsonb_array_elements(coalesce(remember.attempts, '[]') || jsonb_build_array(remember.entry))
               WITH ORDINALITY AS e(entry, n)) h
    WHERE h.age <= 10
$$;

-- The history entry for the state before a replay. A result of more than 4,096 bytes is replaced by its size.
-- Takes single columns and not the row, because a row would be fetched with its payload.
CREATE OR REPLACE FUNCTION inbox.replay_entry(processed_at timestamptz, dead_at timestamptz, retry_count int, error text,
                                   error_code text, result jsonb, reason text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
               'at', now(), 'replayed_by', session_user, 'reason', reason,
               'was', CASE WHEN dead_at IS NOT NULL THEN 'dead' ELSE 'processed' END,
               'ended_at', coalesce(dead_at, processed_at), 'attempts', retry_count,
               'error', left(error, 1000), 'code', error_code))
           || CASE WHEN result IS NULL THEN '{}'
                   WHEN octet_length(result::text) > 4096
                   THEN jsonb_build_object('result_bytes', octet_length(result::text))
                   ELSE jsonb_build_object('result', result) END
$$;
