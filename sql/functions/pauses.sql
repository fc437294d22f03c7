-- Pauses: delivery for a topic, a consumer or a handler stops until an operator resumes it (docs/adr/0034).

CREATE OR REPLACE FUNCTION inbox.check_pause(caller text, kind text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF kind IS NULL OR kind NOT IN ('topic', 'consumer', 'handler') THEN
        PERFORM inbox.refuse(caller, format('kind is %s; it may be topic, consumer, handler', coalesce(quote_literal(kind), 'NULL')));
    ELSIF name IS NULL OR (name = '' AND kind <> 'consumer') THEN
        PERFORM inbox.refuse(caller, 'name must be given');
    END IF;
END $$;

-- Stops the delivery: no message of the topic, or for the consumer or the handler, is delivered. Messages in flight finish.
-- ingest: the topic is not read from Kafka either; without it, storing goes on. False: it is paused in this way already. A
-- pause keeps its begin, and its reason with who gave it unless there is another one.
CREATE OR REPLACE FUNCTION inbox.pause(kind text, name text, reason text DEFAULT NULL, ingest boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    PERFORM inbox.check_pause('pause', kind, name);
    IF kind = 'consumer' THEN
        name := inbox.present_name(name);
    END IF;
    IF ingest AND kind <> 'topic' OR ingest IS NULL THEN
        PERFORM inbox.refuse('pause', 'ingest may be true for a topic only');
    END IF;
    INSERT INTO inbox.inbox_pauses AS p (kind, name, ingest, reason)
    VALUES (pause.kind, pause.name, pause.ingest, pause.reason)
    ON CONFLICT ON CONSTRAINT inbox_pauses_pkey DO UPDATE
    SET ingest = excluded.ingest, reason = coalesce(excluded.reason, p.reason),
        who = CASE WHEN excluded.reason IS NULL THEN p.who ELSE session_user END
    WHERE p.ingest <> excluded.ingest OR excluded.reason IS NOT NULL AND p.reason IS DISTINCT FROM excluded.reason;
    GET DIAGNOSTICS changed = ROW_COUNT;
    PERFORM inbox.audit('pause', jsonb_build_object('kind', kind, 'name', name, 'ingest', ingest), reason, changed);
    PERFORM pg_notify('inboxd_replay', '');
    RETURN changed > 0;
END $$;

-- Ends a pause. False: it is not paused.
CREATE OR REPLACE FUNCTION inbox.resume(kind text, name text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed bigint;
BEGIN
    PERFORM inbox.check_pause('resume', kind, name);
    IF kind = 'consumer' THEN
        name := inbox.present_name(name);
    END IF;
    DELETE FROM inbox.inbox_pauses p WHERE p.kind = resume.kind AND p.name = resume.name;
    GET DIAGNOSTICS changed = ROW_COUNT;
    PERFORM inbox.audit('resume', jsonb_build_object('kind', kind, 'name', name), reason, changed);
    PERFORM pg_notify('inboxd_replay', '');
    RETURN changed > 0;
END $$;
