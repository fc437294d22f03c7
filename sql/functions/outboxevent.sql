-- The table of Debezium's outbox event router as a view, for services that were written for it. An INSERT emits an event
-- with the topic, key, value and headers that the router would give it by default. A DELETE does nothing: Quarkus
-- deletes each row directly after its INSERT.

-- The rows that this transaction inserted, so that its DELETE finds them and reports one row. The setting has the first
-- and the last seq of them, and every user can change it: so a row must also be of a transaction that is in progress. Whoever
-- sees such a row has inserted it. pg_xact_status() wants 64 bits of its transaction id: those of the horizon, which is not
-- above it, and the distance between both. The barrier keeps a user's functions from reading other rows.
CREATE OR REPLACE VIEW inbox.outboxevent WITH (security_barrier) AS
SELECT CASE WHEN o.format = 'bare' THEN o.event_id::uuid END AS id,
       replace(o.topic, 'outbox.event.', '') AS aggregatetype,
       CASE WHEN o.format = 'bare' THEN convert_from(o.key, 'UTF8') END AS aggregateid,
       o.event_type AS type,
       o.created_at AS "timestamp",
       NULL::text AS payload,
       NULL::text AS tracingspancontext
FROM inbox.outbox o
CROSS JOIN (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xid) h
CROSS JOIN LATERAL (SELECT (o.xmin::text::bigint - h.xid % 4294967296 + 6442450944) % 4294967296 - 2147483648 AS distance) d
WHERE o.seq >= nullif(split_part(current_setting('inboxd.outboxevent_' || 'inbox.outbox'::regclass::oid, true), ' ', 1), '')::bigint
  AND o.seq <= nullif(split_part(current_setting('inboxd.outboxevent_' || 'inbox.outbox'::regclass::oid, true), ' ', 2), '')::bigint
  AND CASE WHEN d.distance >= 0 THEN pg_xact_status((h.xid + d.distance)::text::xid8) = 'in progress' END;

-- tracingspancontext is a text of Java properties; of these, traceparent becomes a header.
CREATE OR REPLACE FUNCTION inbox.insert_outboxevent() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    topic text := 'outbox.event.' || coalesce(NEW.aggregatetype, '');
    key bytea := convert_to(NEW.aggregateid, 'UTF8');
    data bytea := convert_to(NEW.payload, 'UTF8');
    trace text := substring(NEW.tracingspancontext FROM E'(?n)^traceparent=(\\S+)');
    fault text := inbox.event_fault(topic, key, NEW.type, data, NULL, NULL, NULL, NULL, NULL);
    setting text := 'inboxd.outboxevent_' || 'inbox.outbox'::regclass::oid;
    stored bigint;
BEGIN
    IF coalesce(NEW.aggregatetype, '') = '' THEN
        PERFORM inbox.refuse_event('aggregatetype is empty; it becomes part of the topic');
    ELSIF fault IS NOT NULL THEN
        PERFORM inbox.refuse_event(fault);
    END IF;
    NEW.id := coalesce(NEW.id, gen_random_uuid());
    INSERT INTO inbox.outbox AS o (event_id, topic, key, event_type, format, headers, payload, created_at)
    VALUES (NEW.id::text, topic, key, NEW.type, 'bare',
            jsonb_build_array(jsonb_build_array('id', NEW.id), jsonb_build_array('eventType', NEW.type))
            || CASE WHEN trace IS NOT NULL THEN jsonb_build_array(jsonb_build_array('traceparent', trace)) ELSE '[]' END,
            data, coalesce(NEW.timestamp, clock_timestamp()))
    RETURNING o.seq INTO stored;
    PERFORM set_config(setting, coalesce(nullif(split_part(current_setting(setting, true), ' ', 1), ''), stored::text)
                                || ' ' || stored, true);
    RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION inbox.delete_outboxevent() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
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
