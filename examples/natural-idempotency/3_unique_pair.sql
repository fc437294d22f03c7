-- Something happens once for each order: a unique constraint on the order and what happened.

-- Tables
CREATE TABLE order_events (order_id bigint, event_type text, at timestamptz NOT NULL DEFAULT now(),
                           PRIMARY KEY (order_id, event_type));
CREATE TABLE mails (order_id bigint, words text NOT NULL);

-- Effect
WITH new AS (
    INSERT INTO order_events (order_id, event_type) VALUES (17, 'order.shipped')
    ON CONFLICT (order_id, event_type) DO NOTHING
    RETURNING order_id
)
INSERT INTO mails (order_id, words) SELECT new.order_id, 'Your order is on its way.' FROM new;

-- Result
SELECT (SELECT count(*) FROM order_events) AS events, (SELECT count(*) FROM mails) AS mails;
