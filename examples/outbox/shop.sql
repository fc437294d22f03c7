CREATE TABLE orders (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer  text NOT NULL,
    cents     bigint NOT NULL,
    shipments int NOT NULL DEFAULT 0  -- as the shipping service has reported them
);
