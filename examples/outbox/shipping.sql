-- Nothing here forbids a second shipment of an order: if there were one, the table would show it.
CREATE TABLE shipments (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id bigint NOT NULL,
    customer text NOT NULL
);
