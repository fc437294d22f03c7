-- A handler in SQL: inboxd calls the function for each message, in the transaction that marks the message processed.
--
-- 1. inboxd migrate --roles
-- 2. psql -v sidecar=USER -f sql_handler.sql, with the database user of the sidecar
-- 3. In inboxd.yaml:
--      handlers:
--        invoices: {call: billing.on_order, topics: [orders], role: billing_events}
--
-- Without `role`, the function runs with the rights of the sidecar.

CREATE SCHEMA billing;
CREATE TABLE billing.invoices (order_id bigint PRIMARY KEY, cents bigint NOT NULL);

CREATE FUNCTION billing.on_order(event inbox.messages) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    IF event.payload_json IS NULL THEN
        RAISE EXCEPTION 'the payload is no JSON' USING ERRCODE = 'IB100';
    END IF;
    INSERT INTO billing.invoices
    VALUES ((event.payload_json ->> 'order')::bigint, (event.payload_json ->> 'cents')::bigint);
    RETURN jsonb_build_object('invoice', event.payload_json -> 'order');
END $$;

-- The role of the function may do what it needs and nothing else.
CREATE ROLE billing_events;
GRANT billing_events TO :sidecar;
GRANT USAGE ON SCHEMA billing TO billing_events;
GRANT INSERT ON billing.invoices TO billing_events;
