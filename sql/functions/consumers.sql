-- Consumers: who wants a message, and which consumers are known.

-- Whether a consumer with these topics and types (NULL = all) wants a message.
CREATE OR REPLACE FUNCTION inbox.wants(topics jsonb, types jsonb, topic text, event_type text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (topics IS NULL OR EXISTS (
               SELECT FROM jsonb_array_elements_text(topics) AS t(name)
               WHERE CASE WHEN left(t.name, 1) = '^' THEN wants.topic ~ t.name ELSE wants.topic = t.name END))
       AND (types IS NULL OR EXISTS (
               SELECT FROM jsonb_array_elements_text(types) AS t(name)
               WHERE CASE WHEN t.name = '*' THEN true
                          WHEN right(t.name, 1) = '*' THEN starts_with(wants.event_type, left(t.name, -1))
                          ELSE wants.event_type = t.name END))
$$;

-- The known consumers that want a message. Before the first sidecar has registered, that is the one without a name.
CREATE OR REPLACE FUNCTION inbox.consumers_of(topic text, event_type text) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.name FROM inbox.inbox_consumers c
    WHERE c.listed_at > clock_timestamp() - c.memory
      AND inbox.wants(c.topics, c.types, consumers_of.topic, consumers_of.event_type)
    UNION ALL
    SELECT '' WHERE NOT EXISTS (SELECT FROM inbox.inbox_consumers)
$$;

-- Forgets a consumer: from the next heartbeat of each sidecar on, no messages are stored for it. Its rows stay. A consumer
-- that a sidecar lists is known again with the next heartbeat. False: there is no consumer with that name.
CREATE OR REPLACE FUNCTION inbox.forget_consumer(name text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF name IS NULL THEN
        PERFORM inbox.refuse('forget_consumer', 'name must be given');
    END IF;
    DELETE FROM inbox.inbox_consumers c WHERE c.name = forget_consumer.name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM inbox.audit('forget_consumer', jsonb_build_object('consumer', name), reason, 1);
    RETURN true;
END $$;
