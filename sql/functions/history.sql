-- Records of operators' actions: inbox_audit, and the history of each message (inbox_messages.attempts).

-- Every function that changes something for an operator calls this.
CREATE OR REPLACE FUNCTION inbox.audit(action text, filter jsonb, reason text, affected bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO inbox.inbox_audit (action, filter, reason, affected)
    VALUES (audit.action, audit.filter, audit.reason, audit.affected)
$$;

-- The sources and consumers of the rows that have this event id; NULL = there are no such rows.
CREATE OR REPLACE FUNCTION inbox.where_else(event_id text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
    SELECT string_agg(format('source %L, consumer %L', m.source, m.consumer), '; ')
    FROM (SELECT o.source, o.consumer FROM inbox.inbox_messages o
          WHERE o.event_id = where_else.event_id ORDER BY o.source, o.consumer LIMIT 5) m
$$;

-- Records what an operator did to one message, for a consumer or for all (NULL). False: nothing was changed, and a notice says
-- why. changes: which messages the caller changes. details: more for the audit.
CREATE OR REPLACE FUNCTION inbox.audit_message(action text, source text, event_id text, consumer text, reason text, affected bigint,
                                    changes text, details jsonb DEFAULT '{}') RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    message text := format('event %L of source %L', event_id, source) || coalesce(' for consumer ' || quote_literal(consumer), '');
    states text;
    others text;
BEGIN
    PERFORM inbox.audit(action, jsonb_strip_nulls(jsonb_build_object(
        'source', source, 'event_id', event_id, 'consumer', consumer)) || details, reason, affected);
    IF affected > 0 THEN
        RETURN true;
    END IF;
    SELECT string_agg(DISTINCT m.status, ', ') INTO states FROM inbox.messages m
    WHERE m.event_id = audit_message.event_id AND m.source = audit_message.source
      AND (audit_message.consumer IS NULL OR m.consumer = audit_message.consumer);
    IF states IS NOT NULL THEN
        RAISE NOTICE '%', message || ' was not changed: it is ' || states
            USING HINT = format('%s changes only a message that %s and that no other transaction has locked.', action, changes);
        RETURN false;
    END IF;
    others := inbox.where_else(event_id);
    RAISE NOTICE '%', 'there is no ' || message
        USING HINT = coalesce('The inbox has this event id with ' || others || '.', 'No message in the inbox has this event id.');
    RETURN false;
END $$;

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
