-- Events that the service emits in its own transactions. The relay publishes them after the COMMIT.

-- Raises IB020: an argument of an event is wrong, and the message names it.
CREATE OR REPLACE FUNCTION inbox.refuse_event(words text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'inbox.emit: %', words USING ERRCODE = 'IB020';
END $$;

-- What is wrong with an event, the argument's name first; NULL = nothing. The planner inserts this expression into its
-- callers, which saves 4 us an event. So there is no SET search_path here, because each caller has one, and it is not
-- IMMUTABLE, because format() is not.
CREATE OR REPLACE FUNCTION inbox.event_fault(topic text, key bytea, type text, data bytea, content_type text, id text,
    source text, subject text, aggregate text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN topic IS NULL AND aggregate IS NULL THEN 'topic is NULL, and aggregate, too; one of them must be given'
        WHEN topic ~ '[^A-Za-z0-9._-]' OR length(topic) NOT BETWEEN 1 AND 249 OR topic IN ('.', '..')
            THEN format('topic is %L; it has 1 to 249 letters, digits, dots, underscores and hyphens', left(topic, 80))
        WHEN aggregate ~ '[^A-Za-z0-9._-]' OR length(aggregate) NOT BETWEEN 1 AND 249
            THEN format('aggregate is %L; it becomes part of a topic, so it has 1 to 249 letters, digits, dots, underscores '
                        'and hyphens', left(aggregate, 80))
        WHEN coalesce(type, '') = '' THEN format('type is %L; it must be given', type)
        WHEN octet_length(type) > 1024 THEN format('type has %s bytes; the limit is 1024', octet_length(type))
        WHEN id = '' THEN 'id is empty; NULL = a new UUID'
        WHEN octet_length(id) > 1024 THEN format('id has %s bytes; the limit is 1024', octet_length(id))
        WHEN source = '' THEN 'source is empty; NULL = that of the configuration'
        WHEN octet_length(source) > 1024 THEN format('source has %s bytes; the limit is 1024', octet_length(source))
        WHEN subject = '' THEN 'subject is empty; NULL = none'
        WHEN octet_length(subject) > 1024 THEN format('subject has %s bytes; the limit is 1024', octet_length(subject))
        WHEN content_type = '' THEN 'content_type is empty; NULL = none'
        WHEN octet_length(content_type) > 1024 THEN format('content_type has %s bytes; the limit is 1024', octet_length(content_type))
        WHEN octet_length(key) > 16777216 THEN format('key has %s bytes; the limit is 16777216', octet_length(key))
        WHEN octet_length(data) > 16777216 THEN format('data has %s bytes; the limit is 16777216', octet_length(data))
        END
$$;

-- Headers as pairs of name and value, the form in which messages have them, too. Accepts an object, or pairs: those
-- keep their order, and a name may occur twice. A value is a text, null, or {"base64": "…"} for other bytes.
-- `place` precedes the name of the argument in an error.
CREATE OR REPLACE FUNCTION inbox.header_pairs(headers jsonb, place text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pairs jsonb := headers;
    pair jsonb;
    fault text;
BEGIN
    IF jsonb_typeof(headers) = 'object' THEN
        SELECT coalesce(jsonb_agg(jsonb_build_array(h.key, h.value)), '[]') INTO pairs FROM jsonb_each(headers) h;
    ELSIF jsonb_typeof(headers) <> 'array' THEN
        PERFORM inbox.refuse_event(place || format('headers is a %s; it must be an object, or an array of pairs',
                                                   jsonb_typeof(headers)));
    END IF;
    FOR pair IN SELECT p.pair FROM jsonb_array_elements(pairs) AS p(pair) LOOP
        fault := CASE
            WHEN jsonb_typeof(pair) <> 'array' THEN format('has %s, which is not a pair', left(pair::text, 80))
            WHEN jsonb_array_length(pair) <> 2 OR jsonb_typeof(pair -> 0) <> 'string'
                THEN format('has %s, which is not a pair of a name and a value', left(pair::text, 80))
            WHEN pair ->> 0 = '' THEN 'has an empty name'
            WHEN lower(pair ->> 0) ~ '^(ce_.*|event-id|content-type)$'
                THEN format('has %s; inboxd sets this header itself', left(pair ->> 0, 80))
            WHEN jsonb_typeof(pair -> 1) IN ('string', 'null') THEN NULL
            WHEN jsonb_typeof(pair -> 1) = 'object'
                AND pair -> 1 = jsonb_build_object('base64', pair -> 1 ->> 'base64')
                AND inbox.try_base64(pair -> 1 ->> 'base64') IS NOT NULL THEN NULL
            ELSE format('has %s with the value %s; a value is a text, null, or {"base64": "…"}', left(pair ->> 0, 80),
                        left(pair ->> 1, 80)) END;
        IF fault IS NOT NULL THEN
            PERFORM inbox.refuse_event(place || 'headers ' || fault);
        END IF;
    END LOOP;
    IF octet_length(pairs::text) > 65536 THEN
        PERFORM inbox.refuse_event(place || format('headers has %s bytes; the limit is 65536',
                                                   octet_length(pairs::text)));
    END IF;
    RETURN pairs;
END $$;

-- Where the events of this transaction come from, in settings that end with it (set_config(…, true)): inboxd.traceparent and
-- inboxd.tracestate are a trace, inboxd.claim is the claim of the message whose handler emits, inboxd.request the token of the
-- request with a key. Every user can set them. So a value that is not valid counts as none, and a claim stands for a message
-- only while that message has it. Without its tag, too: it completes nothing, and a SQL handler's has none.
CREATE OR REPLACE FUNCTION inbox.has_origin() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT concat(current_setting('inboxd.traceparent', true), current_setting('inboxd.claim', true),
                  current_setting('inboxd.request', true)) <> ''
$$;

-- The trace in these settings, as header_pairs() returns headers; NULL = none.
CREATE OR REPLACE FUNCTION inbox.trace_of_transaction() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN current_setting('inboxd.traceparent', true) ~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
                THEN jsonb_build_array(jsonb_build_array('traceparent', current_setting('inboxd.traceparent', true)))
                     || CASE WHEN octet_length(current_setting('inboxd.tracestate', true)) BETWEEN 1 AND 8192
                             THEN jsonb_build_array(jsonb_build_array('tracestate', current_setting('inboxd.tracestate', true)))
                             ELSE '[]' END END
$$;

-- True: the headers have a trace. An object, or pairs as header_pairs() returns them.
CREATE OR REPLACE FUNCTION inbox.has_trace(headers jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(headers ? 'traceparent' OR jsonb_path_exists(headers, 'strict $[*] ? (@[0] == "traceparent")', '{}', true), false)
$$;

-- The trace and the causes of an event with these headers. trace: the headers to add to it, from the settings, or else from
-- the message. caused_by: the seq of the message. scope, key: those of the request.
CREATE OR REPLACE FUNCTION inbox.origin(headers jsonb, OUT trace jsonb, OUT caused_by bigint, OUT scope text, OUT key text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
DECLARE
    claim record;
    request text[] := inbox.request_token(nullif(current_setting('inboxd.request', true), ''));
BEGIN
    IF current_setting('inboxd.claim', true) <> '' THEN
        claim := inbox.parse_claim(current_setting('inboxd.claim'));
        SELECT m.seq, inbox.trace_pairs(m.headers) INTO caused_by, trace FROM inbox.inbox_messages m
        WHERE m.seq = claim.seq AND m.delivery_count = claim.delivery_count AND m.claimed_by = claim.instance;
        IF trace = '[]' THEN
            trace := inbox.envelope_trace(caused_by);
        END IF;
    END IF;
    IF request IS NOT NULL THEN
        scope := inbox.try_text(decode(request[CASE request[1] WHEN 'l' THEN 3 ELSE 6 END], 'hex'));
        key := inbox.try_text(decode(request[CASE request[1] WHEN 'l' THEN 4 ELSE 7 END], 'hex'));
    END IF;
    trace := CASE WHEN inbox.has_trace(headers) THEN '[]' ELSE coalesce(inbox.trace_of_transaction(), trace, '[]') END;
END $$;

-- Emits an event with any bytes as its value. Returns its id. data NULL = a tombstone.
-- IB020: an argument is wrong, and the message names it.
CREATE OR REPLACE FUNCTION inbox.emit_bytes(topic text, key bytea, type text, data bytea, content_type text,
    headers jsonb DEFAULT '{}', id text DEFAULT NULL, source text DEFAULT NULL, subject text DEFAULT NULL,
    aggregate text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fault text := inbox.event_fault(topic, key, type, data, content_type, id, source, subject, aggregate);
    trace jsonb := '[]';
    caused_by bigint;
    scope text;
    request text;
    stored text;
BEGIN
    IF fault IS NOT NULL THEN
        PERFORM inbox.refuse_event(fault);
    ELSIF inbox.has_origin() THEN
        SELECT o.trace, o.caused_by, o.scope, o.key INTO trace, caused_by, scope, request FROM inbox.origin(headers) o;
    END IF;
    INSERT INTO inbox.outbox
        (event_id, source, topic, aggregate, key, event_type, subject, content_type, headers, payload, caused_by,
         request_scope, request_key)
    VALUES (coalesce(emit_bytes.id, gen_random_uuid()::text), emit_bytes.source, emit_bytes.topic, emit_bytes.aggregate,
            emit_bytes.key, emit_bytes.type, emit_bytes.subject,
            CASE WHEN emit_bytes.data IS NOT NULL THEN emit_bytes.content_type END,
            CASE WHEN coalesce(emit_bytes.headers, '{}') IN ('{}', '[]') THEN trace
                 ELSE inbox.header_pairs(emit_bytes.headers, '') || trace END,
            emit_bytes.data, caused_by, scope, request)
    RETURNING event_id INTO stored;
    RETURN stored;
END $$;

-- Emits an event with a JSON value. jsonb rewrites the text: the order of members, spaces, numbers. To keep its bytes,
-- for example because they are signed, use emit_bytes().
--
-- The planner replaces a call by one of emit_bytes().
CREATE OR REPLACE FUNCTION inbox.emit(topic text, key text, type text, data jsonb, headers jsonb DEFAULT '{}',
    id text DEFAULT NULL, source text DEFAULT NULL, subject text DEFAULT NULL, aggregate text DEFAULT NULL) RETURNS text
LANGUAGE sql AS $$
    SELECT inbox.emit_bytes(topic, pg_catalog.convert_to(key, 'UTF8'), type, pg_catalog.convert_to(data::text, 'UTF8'),
                            'application/json', headers, id, source, subject, aggregate)
$$;

-- Serialises the transactions that emit events of a key: the second one waits here until the first has ended. So the
-- order of the events is that of the commits. Not needed if they all lock a row of the aggregate before they emit.
CREATE OR REPLACE FUNCTION inbox.lock_key(topic text, key text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF topic IS NULL OR key IS NULL THEN
        PERFORM inbox.refuse_event(CASE WHEN topic IS NULL THEN 'topic' ELSE 'key' END || ' is NULL; lock_key() needs both');
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(
        concat_ws(' ', 'inboxd key', 'inbox.outbox'::regclass::oid, length(topic), topic, key), 0));
END $$;

-- The id of an event that a handler emits without giving one, shaped like a UUID. It is derived from the message and from what
-- the event is about; `place` is its number among the events of the message that are about the same thing. If the completion is
-- lost and the message is delivered again, the event gets the id of the first time, also if the handler now emits other events
-- or another order. Its receivers drop the second copy. A replay is meant to do everything again, so it makes other ids.
CREATE OR REPLACE FUNCTION inbox.caused_id(source text, event_id text, consumer text, replay_count int, place int,
    about text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digest bytea := substr(sha256(convert_to(jsonb_build_array(source, event_id, consumer, replay_count, place, about)::text,
                                               'UTF8')), 1, 16);
BEGIN
    RETURN encode(set_byte(set_byte(digest, 6, get_byte(digest, 6) & 15 | 128), 8, get_byte(digest, 8) & 63 | 128), 'hex')::uuid;
END $$;

-- The fault in the form of an event in JSON, as the end of a sentence that begins with its place; NULL = none. The planner
-- inserts the function into its caller, like event_fault().
CREATE OR REPLACE FUNCTION inbox.emitted_fault(event jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(event) IS DISTINCT FROM 'object' THEN format(' is a %s; it must be an object', jsonb_typeof(event))
        WHEN event - '{topic,aggregate,key,type,data,data_base64,headers,id,source,subject}'::text[] <> '{}'
            THEN format(' has the member "%s", which is not known', left(jsonb_path_query_first(
                event - '{topic,aggregate,key,type,data,data_base64,headers,id,source,subject}'::text[], '$.keyvalue().key') #>> '{}', 80))
        WHEN jsonb_path_exists(event - '{data,headers}'::text[], 'strict $.* ? (@.type() != "string" && @.type() != "null")')
            THEN format('.%s is a %s; it must be a text', jsonb_path_query_first(event - '{data,headers}'::text[],
                '$.keyvalue() ? (@.value.type() != "string" && @.value.type() != "null").key') #>> '{}',
                jsonb_path_query_first(event - '{data,headers}'::text[],
                '$.* ? (@.type() != "string" && @.type() != "null").type()') #>> '{}')
        WHEN event ->> 'data_base64' IS NULL THEN NULL
        WHEN jsonb_typeof(event -> 'data') <> 'null' THEN '.data_base64 is given, and data, too'
        WHEN inbox.try_base64(event ->> 'data_base64') IS NULL THEN '.data_base64 is not base64' END
$$;

-- Emits the events that the handler of a message gave with its answer, in their order. `headers` are those of the
-- message: an event without a traceparent continues the trace of the transaction or, without one, of the message. `emit` is NULL, or an array of
-- at most 1,000 objects with topic or aggregate, type, and perhaps key, data or data_base64, headers, id, source,
-- subject. Returns how many. IB020: one of them is wrong, and the message names it: emit[0].topic.
-- The statement that settles calls it with columns of the row that it completed, so a lost claim emits nothing.
CREATE OR REPLACE FUNCTION inbox.emit_caused(seq bigint, source text, event_id text, consumer text, replay_count int,
    headers jsonb, emit jsonb) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    trace jsonb := coalesce(inbox.trace_of_transaction(), inbox.trace_pairs(headers));
    one record;
    pairs jsonb;
    fault text;
    about text;
    place int := 1;
    earlier bigint[]; -- hashes, which are compared faster than texts; two equal ones only make the place higher
    emitted int := 0;
BEGIN
    IF emit IS NULL OR jsonb_typeof(emit) = 'null' THEN
        RETURN 0;
    ELSIF jsonb_typeof(emit) <> 'array' THEN
        PERFORM inbox.refuse_event(format('emit is a %s; it must be an array of events', jsonb_typeof(emit)));
    ELSIF jsonb_array_length(emit) > 1000 THEN
        PERFORM inbox.refuse_event(format('emit has %s events; the limit is 1000', jsonb_array_length(emit)));
    ELSIF trace = '[]' AND inbox.is_structured(headers) THEN
        trace := inbox.envelope_trace(seq);
    END IF;
    FOR one IN
        SELECT e.event, e.n, e.event ->> 'topic' AS topic, convert_to(e.event ->> 'key', 'UTF8') AS key,
               e.event ->> 'type' AS type,
               coalesce(inbox.try_base64(e.event ->> 'data_base64'),
                        convert_to(nullif(e.event -> 'data', 'null')::text, 'UTF8')) AS data,
               CASE WHEN e.event ->> 'data' IS NOT NULL THEN 'application/json' END AS content_type,
               coalesce(nullif(e.event -> 'headers', 'null'), '{}') AS headers, e.event ->> 'id' AS id,
               e.event ->> 'source' AS source, e.event ->> 'subject' AS subject, e.event ->> 'aggregate' AS aggregate
        FROM (SELECT a.event, a.n::int - 1 AS n FROM jsonb_array_elements(emit) WITH ORDINALITY AS a(event, n)) e
        ORDER BY e.n
    LOOP
        fault := coalesce(inbox.emitted_fault(one.event),
                          '.' || inbox.event_fault(one.topic, one.key, one.type, one.data, one.content_type, one.id,
                                                   one.source, one.subject, one.aggregate));
        IF fault IS NOT NULL THEN
            PERFORM inbox.refuse_event('emit[' || one.n || ']' || fault);
        END IF;
        pairs := CASE WHEN one.headers IN ('{}', '[]') THEN '[]' ELSE inbox.header_pairs(one.headers, 'emit[' || one.n || '].') END;
        IF one.id IS NULL THEN
            about := jsonb_build_array(one.topic, one.aggregate, one.type, one.event -> 'key');
            IF jsonb_array_length(emit) > 1 THEN
                place := coalesce(cardinality(array_positions(earlier, hashtextextended(about, 0))), 0) + 1;
                earlier := array_append(earlier, hashtextextended(about, 0));
            END IF;
        END IF;
        INSERT INTO inbox.outbox
            (event_id, source, topic, aggregate, key, event_type, subject, content_type, headers, payload, caused_by)
        VALUES (coalesce(one.id, inbox.caused_id(emit_caused.source, emit_caused.event_id, emit_caused.consumer,
                                                 emit_caused.replay_count, place, about)),
                one.source, one.topic, one.aggregate, one.key, one.type, one.subject, one.content_type,
                CASE WHEN trace = '[]' OR inbox.has_trace(pairs) THEN pairs ELSE pairs || trace END, one.data, emit_caused.seq);
        emitted := emitted + 1;
    END LOOP;
    RETURN emitted;
END $$;
