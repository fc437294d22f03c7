-- Known handlers: those that recently connected to any sidecar of this schema.

-- The known handler of a consumer that a message is for: the one with the most specific subscription; of equal ones,
-- the one with the newest hello. NULL = none. here: inbox_instances.handlers of a sidecar, where one of these wins over equal ones.
CREATE OR REPLACE FUNCTION inbox.handler_of(topic text, event_type text, consumer text, here jsonb DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.name
    FROM inbox.handlers h
    CROSS JOIN LATERAL jsonb_array_elements(h.subscriptions) AS s(sub)
    CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE WHEN jsonb_typeof(s.sub -> 'types') = 'array' AND s.sub -> 'types' <> '[]' THEN s.sub -> 'types'
             ELSE '["*"]' END) AS t(type)
    WHERE h.status <> 'lapsed' AND h.consumer = handler_of.consumer AND coalesce(s.sub ->> 'topic' = handler_of.topic, true)
      AND CASE WHEN t.type = '*' THEN true
               WHEN right(t.type, 1) = '*' THEN starts_with(handler_of.event_type, left(t.type, -1))
               ELSE handler_of.event_type = t.type END
    ORDER BY right(t.type, 1) = '*', length(t.type) DESC, s.sub ->> 'topic' IS NULL,
             (here @> CASE h.consumer WHEN '' THEN to_jsonb(h.name)
                      ELSE jsonb_build_array(jsonb_build_object('name', h.name, 'consumer', h.consumer)) END) IS NOT TRUE,
             h.status <> 'connected',
             h.connected_at DESC, h.name
    LIMIT 1
$$;

-- The same for the consumer without a name.
CREATE OR REPLACE FUNCTION inbox.handler_of(topic text, event_type text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT inbox.handler_of(topic, event_type, '')
$$;

-- Forgets a handler at once: its messages go to the next specific handler, or wait for any. A connected handler is
-- known again with the next heartbeat. consumer: NULL = every one with a handler of that name. False: there is no such
-- handler.
CREATE OR REPLACE FUNCTION inbox.forget_handler(name text, reason text DEFAULT NULL, consumer text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(name, '') = '' THEN
        PERFORM inbox.refuse('forget_handler', 'name must be given');
    END IF;
    DELETE FROM inbox.inbox_handlers h
    WHERE h.name = forget_handler.name AND (forget_handler.consumer IS NULL OR h.consumer = forget_handler.consumer);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM inbox.audit('forget_handler', jsonb_strip_nulls(jsonb_build_object('handler', name, 'consumer', consumer)), reason, 1);
    PERFORM pg_notify('inboxd_replay', '');
    RETURN true;
END $$;
