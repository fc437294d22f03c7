-- Checks of the arguments of functions of this schema.

-- Raises 22023 (invalid_parameter_value) for a wrong argument: the message has the function's name and the expected
-- values.
CREATE OR REPLACE FUNCTION inbox.refuse(caller text, words text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '%', 'inbox' || '.' || caller || ': ' || words USING ERRCODE = 'invalid_parameter_value';
END $$;

-- Checks a filter: one jsonb object with some of: status, topic, event_type (with * at the end a prefix), key (text),
-- received_from, received_to, died_from, died_to (only with the status dead), error_like, error_code (the whole code; '' =
-- messages without a code), consumer ('' = the consumer without a name), trace (an id, or a traceparent), counted (an object:
-- look_page()). inbox_audit keeps it without counted.
-- Returns the filter without its NULL members. `allowed`: the states that the caller works on, one of which the
-- filter must name.
CREATE OR REPLACE FUNCTION inbox.check_filter(caller text, filter jsonb, allowed text[]) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known text[] := '{status,topic,event_type,key,received_from,received_to,died_from,died_to,error_like,error_code,consumer,trace,counted}';
    given jsonb := jsonb_strip_nulls(filter);
    trace text := CASE WHEN lower(given ->> 'trace') ~ '^([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|[0-9a-f]{32})$'
                       THEN substring(lower(given ->> 'trace') FROM '[0-9a-f]{32}') END;
    name text;
BEGIN
    SELECT k INTO name FROM jsonb_object_keys(given) k WHERE k <> ALL (known);
    IF name IS NOT NULL THEN
        PERFORM inbox.refuse(caller, format('there is no filter "%s"; the filters are %s', name, array_to_string(known, ', ')));
    END IF;
    IF NOT coalesce(given ->> 'status' = ANY (allowed), false) THEN
        PERFORM inbox.refuse(caller, format('status is %s; it may be %s',
            coalesce(quote_literal(given ->> 'status'), 'NULL'), array_to_string(allowed, ', ')));
    END IF;
    FOR name IN SELECT k FROM jsonb_object_keys(given) k LOOP
        IF given ->> name = '' AND name NOT IN ('key', 'error_code', 'consumer') THEN
            PERFORM inbox.refuse(caller, name || ' is empty; leave it out for any');
        END IF;
    END LOOP;
    IF given ? 'trace' AND trace IS NULL THEN
        PERFORM inbox.refuse(caller, format('trace is %L; it is an id of 32 hexadecimal digits, or a traceparent',
                                            left(given ->> 'trace', 80)));
    END IF;
    IF (given ->> 'received_from')::timestamptz > (given ->> 'received_to')::timestamptz THEN
        PERFORM inbox.refuse(caller, 'received_from is later than received_to');
    END IF;
    IF (given ->> 'died_from')::timestamptz > (given ->> 'died_to')::timestamptz THEN
        PERFORM inbox.refuse(caller, 'died_from is later than died_to');
    END IF;
    IF (given ? 'died_from' OR given ? 'died_to') AND given ->> 'status' <> 'dead' THEN
        PERFORM inbox.refuse(caller, 'died_from and died_to need the status dead');
    END IF;
    RETURN given || jsonb_strip_nulls(jsonb_build_object('trace', trace));
END $$;

-- The filter that the named arguments of a function make. Each argument has the name and the meaning of an option of the
-- command line. Most have an earlier name, too, and a call may give only one of the two. since and until are about the emit
-- of events, the death of dead messages, and the receipt of others. max and after are checked; they are not in the filter.
CREATE OR REPLACE FUNCTION inbox.named_filter(caller text, arguments jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := jsonb_strip_nulls(arguments);
    of_events boolean := starts_with(caller, 'outbox');
    of_deaths boolean := NOT of_events AND coalesce(given ->> 'status' = 'dead', false);
    name record;
BEGIN
    FOR name IN SELECT * FROM (VALUES ('type', 'event_type'), ('code', 'error_code'), ('error', 'error_like'),
            ('since', 'received_from'), ('until', 'received_to'), ('max', 'max_rows'), ('after', 'after_seq')) AS n(new, old)
            WHERE given ? n.new LOOP
        IF given ? name.old THEN
            PERFORM inbox.refuse(caller, format('%s is the earlier name of %s; give one of them',
                CASE WHEN of_events THEN replace(name.old, 'received', 'created') ELSE name.old END, name.new));
        ELSIF given ->> name.new = '' AND name.new <> 'code' THEN
            PERFORM inbox.refuse(caller, name.new || ' is empty; leave it out for any');
        END IF;
        given := given || jsonb_build_object(CASE WHEN of_deaths THEN replace(name.old, 'received', 'died') ELSE name.old END,
            CASE name.new WHEN 'error' THEN '%' || regexp_replace(given ->> 'error', E'([\\\\%_])', E'\\\\\\1', 'g') || '%'
                          ELSE given ->> name.new END);
    END LOOP;
    IF (given ->> 'since')::timestamptz > (given ->> 'until')::timestamptz THEN
        PERFORM inbox.refuse(caller, 'since is later than until');
    ELSIF (given ->> 'max')::int < 1 THEN
        PERFORM inbox.refuse(caller, format('max is %s; it must be at least 1', given ->> 'max'));
    END IF;
    RETURN given - '{type,code,error,since,until,max,max_rows,after,after_seq}'::text[];
END $$;

-- Checks the limit of a call; NULL = no limit.
CREATE OR REPLACE FUNCTION inbox.check_max_rows(caller text, max_rows int) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF max_rows < 1 THEN
        PERFORM inbox.refuse(caller, format('max_rows is %s; it must be at least 1', max_rows));
    END IF;
    RETURN max_rows;
END $$;
