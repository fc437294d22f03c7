-- What belongs together: the messages and events of a trace, and the events that a message or a request has caused.

-- The trace that a message came with, as headers for the events that it causes. ce_traceparent has precedence; the last of a
-- repeated header counts. A value of more than 8 KiB is left out: its receivers could not take it.
CREATE OR REPLACE FUNCTION inbox.trace_pairs(headers jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF strpos(headers::text, 'trace') = 0 THEN
        RETURN '[]';
    END IF;
    RETURN coalesce(jsonb_agg(jsonb_build_array(t.name, t.value) ORDER BY t.name), '[]')
    FROM (SELECT DISTINCT ON (n.name) n.name, h.pair -> 1 AS value
          FROM jsonb_array_elements(headers) WITH ORDINALITY AS h(pair, place)
          CROSS JOIN LATERAL (SELECT regexp_replace(h.pair ->> 0, '^ce_', '') AS name) n
          WHERE h.pair ->> 0 IN ('traceparent', 'tracestate', 'ce_traceparent', 'ce_tracestate')
            AND jsonb_typeof(h.pair -> 1) = 'string' AND octet_length(h.pair ->> 1) <= 8192
          ORDER BY n.name, starts_with(h.pair ->> 0, 'ce_') DESC, h.place DESC) t;
END $$;

-- The trace of a message whose headers have none: a structured CloudEvent has it in its envelope.
CREATE OR REPLACE FUNCTION inbox.envelope_trace(seq bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_array(t.name, e.envelope -> t.name) ORDER BY t.name), '[]')
    FROM inbox.inbox_messages m
    CROSS JOIN LATERAL (SELECT inbox.try_json(m.payload) AS envelope OFFSET 0) e
    CROSS JOIN unnest('{traceparent,tracestate}'::text[]) AS t(name)
    WHERE m.seq = envelope_trace.seq AND jsonb_typeof(e.envelope -> t.name) = 'string' AND octet_length(e.envelope ->> t.name) <= 8192
$$;

-- True: the headers are those of a structured CloudEvent.
CREATE OR REPLACE FUNCTION inbox.is_structured(headers jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(headers::text LIKE '%application/cloudevents+json%', false)
$$;

-- The id of the trace of inboxd's own spans for a message without a traceparent. make_own() in src/trace/context.c computes
-- the same id.
CREATE OR REPLACE FUNCTION inbox.computed_trace(source text, event_id text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT left(encode(sha256(substr(convert_to(source, 'UTF8'), 1, 511) || E'\\x00'::bytea || substr(convert_to(event_id, 'UTF8'), 1, 512)),
                       'hex'), 32)
$$;

-- True if the message belongs to the trace with this id. Each header that contains the id counts, also a header of another
-- standard.
CREATE OR REPLACE FUNCTION inbox.is_of_trace(trace text, source text, event_id text, headers jsonb, payload bytea) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN headers::text LIKE '%' || trace || '%' THEN true
                WHEN headers::text LIKE '%"traceparent"%' OR headers::text LIKE '%"ce_traceparent"%' THEN false
                ELSE coalesce(inbox.is_structured(headers) AND position(convert_to(trace, 'UTF8') IN payload) > 0, false)
                     OR inbox.computed_trace(source, event_id) = trace END
$$;

-- The id of the trace of a message; NULL = it came without one.
CREATE OR REPLACE FUNCTION inbox.trace_of(seq bigint, headers jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pairs jsonb := inbox.trace_pairs(headers);
BEGIN
    IF pairs = '[]' AND inbox.is_structured(headers) THEN
        pairs := inbox.envelope_trace(seq);
    END IF;
    RETURN substring(jsonb_path_query_first(pairs, 'strict $[*] ? (@[0] == "traceparent")[1]') #>> '{}' FROM '^[0-9a-f]{2}-([0-9a-f]{32})-');
END $$;

-- A seq of the outbox: all events with a lower seq were created before this time. NULL = there are no events. seq rises
-- with created_at, but not between transactions that emit at the same moment. So the caller subtracts a second.
CREATE OR REPLACE FUNCTION inbox.event_before(stamp timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off AS $$
DECLARE
    low bigint;
    high bigint;
    middle bigint;
    created timestamptz;
BEGIN
    SELECT min(o.seq) - 1, max(o.seq) INTO low, high FROM inbox.outbox o;
    WHILE high - low > 1000 LOOP
        middle := low + (high - low) / 2;
        SELECT o.created_at INTO created FROM inbox.outbox o WHERE o.seq >= middle ORDER BY o.seq LIMIT 1;
        IF created < stamp THEN
            low := middle;
        ELSE
            high := middle;
        END IF;
    END LOOP;
    RETURN low;
END $$;

-- The events that a message or a request has caused, of those that are still in the outbox; at most 1,000. No index has the
-- causes, because each event would pay for it. So this function reads the events that were emitted after one of the times,
-- at most 100,000 for each time. complete: the function has read all events after the first of these times, so there are no
-- other ones.
CREATE OR REPLACE FUNCTION inbox.caused_events(message bigint, scope text, key text, times timestamptz[], OUT seqs bigint[],
    OUT complete boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET jit = off AS $$
DECLARE
    since timestamptz;
    low bigint;
    looked bigint;
    last bigint; -- that was read
    found bigint[];
BEGIN
    seqs := '{}';
    complete := true;
    FOR since IN SELECT DISTINCT t FROM unnest(times) t WHERE t IS NOT NULL ORDER BY 1 LOOP
        low := inbox.event_before(since - interval '1 second');
        complete := complete AND coalesce(low <= last, last IS NULL);
        SELECT count(*), coalesce(max(p.seq), low), array_agg(p.seq) FILTER (WHERE p.caused_by = message
                   OR (p.request_key = caused_events.key AND p.request_scope = scope))
        INTO looked, last, found
        FROM (SELECT o.seq, o.caused_by, o.request_scope, o.request_key FROM inbox.outbox o
              WHERE o.seq > low ORDER BY o.seq LIMIT 100000) p;
        seqs := seqs || coalesce(found, '{}');
        EXIT WHEN looked < 100000;
    END LOOP;
    complete := complete AND coalesce(looked < 100000, true);
    seqs := ARRAY(SELECT DISTINCT s FROM unnest(seqs) s ORDER BY s LIMIT 1000);
END $$;
