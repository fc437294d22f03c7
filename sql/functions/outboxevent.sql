-- The table of Debezium's outbox event router as a view, for services that were written for it. An INSERT emits an event
-- with the topic, key, value and headers that the router would give it by default. A DELETE does not take it
-- back: Quarkus deletes each row directly after its INSERT.

-- The table of Debezium's outbox event router as a view: an INSERT emits an event. A SELECT returns the rows that this
-- transaction inserted, and a DELETE of one of them reports one row.
--
-- The rows are in settings of the transaction, which a rollback to a savepoint resets: their number in one, and 50 rows in each of the others, because each
-- INSERT copies a setting as a whole. A user who changes them sees what they wrote: the view reads no table.
CREATE OR REPLACE VIEW inbox.outboxevent AS
SELECT (e.event ->> 0)::uuid AS id,
       (e.event ->> 1) COLLATE "C" AS aggregatetype,
       (e.event ->> 2) COLLATE "C" AS aggregateid,
       (e.event ->> 3) COLLATE "C" AS type,
       (e.event ->> 4)::timestamptz AS "timestamp",
       NULL::text AS payload,
       NULL::text AS tracingspancontext
FROM (SELECT 'inboxd.outboxevents_' || 'inbox.outbox'::regclass::oid AS name) AS setting
CROSS JOIN LATERAL generate_series(0, coalesce(nullif(current_setting(setting.name, true), ''), '-1')::int / 50) AS part
CROSS JOIN LATERAL jsonb_array_elements(
    ('[' || coalesce(current_setting(setting.name || '_' || part, true), '') || ']')::jsonb) AS e(event);

-- tracingspancontext is a text of Java properties; of these, traceparent becomes a header; without one, the
-- event continues the trace of the transaction. As with the router, a timestamp
-- does not become the time of the record, which Kafka compares with its clock; nor the time of the emit, because the age of an
-- event is counted from that.
CREATE OR REPLACE FUNCTION inbox.insert_outboxevent() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    topic text := 'outbox.event.' || coalesce(NEW.aggregatetype, '');
    key bytea := convert_to(NEW.aggregateid, 'UTF8');
    data bytea := convert_to(NEW.payload, 'UTF8');
    parent text := substring(NEW.tracingspancontext FROM E'(?n)^traceparent=(\\S+)');
    trace jsonb := '[]';
    caused_by bigint;
    scope text;
    request text;
    setting text := 'inboxd.outboxevents_' || 'inbox.outbox'::regclass::oid;
    earlier int := coalesce(nullif(current_setting(setting, true), ''), '0')::int;
    part text := setting || '_' || earlier / 50;
    fault text := CASE
        WHEN coalesce(NEW.aggregatetype, '') = '' THEN 'aggregatetype is empty; it becomes part of the topic'
        WHEN NEW.timestamp < 'epoch' OR NEW.timestamp >= '10000-01-01 00:00:00Z'
            THEN format('timestamp is %s; it is a time from 1970 to 9999', NEW.timestamp)
        WHEN octet_length(NEW.tracingspancontext) > 8192
            THEN format('tracingspancontext has %s bytes; the limit is 8192', octet_length(NEW.tracingspancontext))
        ELSE inbox.event_fault(topic, key, NEW.type, data, NULL, NULL, NULL, NULL, NULL) END;
BEGIN
    IF fault IS NOT NULL THEN
        PERFORM inbox.refuse_event(fault);
    ELSIF inbox.has_origin() THEN
        SELECT o.trace, o.caused_by, o.scope, o.key INTO trace, caused_by, scope, request FROM inbox.origin(NULL) o;
    END IF;
    NEW.id := coalesce(NEW.id, gen_random_uuid());
    NEW.timestamp := coalesce(NEW.timestamp, clock_timestamp());
    INSERT INTO inbox.outbox (event_id, topic, key, event_type, format, headers, payload, caused_by, request_scope,
                              request_key)
    VALUES (NEW.id::text, topic, key, NEW.type, 'bare',
            jsonb_build_array(jsonb_build_array('id', NEW.id), jsonb_build_array('eventType', NEW.type))
            || CASE WHEN parent IS NOT NULL THEN jsonb_build_array(jsonb_build_array('traceparent', parent)) ELSE trace END,
            data, caused_by, scope, request);
    PERFORM set_config(part, concat_ws(',', nullif(current_setting(part, true), ''),
        jsonb_build_array(NEW.id, NEW.aggregatetype, left(NEW.aggregateid, 1024), NEW.type, NEW.timestamp)), true);
    PERFORM set_config(setting, (earlier + 1)::text, true);
    RETURN NEW;
END $$;

-- Forgets the row if it is one of the last, so that a transaction that deletes each row at once keeps none.
CREATE OR REPLACE FUNCTION inbox.delete_outboxevent() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    setting text := 'inboxd.outboxevents_' || 'inbox.outbox'::regclass::oid;
    stored int := coalesce(nullif(current_setting(setting, true), ''), '0')::int;
    part text := setting || '_' || (stored - 1) / 50;
    kept text;
    forgotten int;
BEGIN
    SELECT string_agg(e.event::text, ',' ORDER BY e.n) FILTER (WHERE e.event ->> 0 <> OLD.id::text),
           count(*) FILTER (WHERE e.event ->> 0 = OLD.id::text)
    INTO kept, forgotten
    FROM jsonb_array_elements(('[' || coalesce(current_setting(part, true), '') || ']')::jsonb) WITH ORDINALITY AS e(event, n);
    IF forgotten > 0 THEN
        PERFORM set_config(part, coalesce(kept, ''), true), set_config(setting, (stored - forgotten)::text, true);
    END IF;
    RETURN OLD;
END $$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'inbox.outboxevent'::regclass AND tgname = 'insert_outboxevent') THEN
        CREATE TRIGGER insert_outboxevent INSTEAD OF INSERT ON inbox.outboxevent
        FOR EACH ROW EXECUTE FUNCTION inbox.insert_outboxevent();
        CREATE TRIGGER delete_outboxevent INSTEAD OF DELETE ON inbox.outboxevent
        FOR EACH ROW EXECUTE FUNCTION inbox.delete_outboxevent();
    END IF;
END $$;
