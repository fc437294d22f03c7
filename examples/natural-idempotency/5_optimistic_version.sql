-- Optimistic version: the message says which version of the row it was computed from, and changes no other one.

-- Tables
CREATE TABLE prices (item text PRIMARY KEY, cents bigint NOT NULL, version bigint NOT NULL);
INSERT INTO prices VALUES ('item-5', 1000, 3);

-- Effect: "20 % off", computed from version 3
UPDATE prices SET cents = cents * 80 / 100, version = version + 1
WHERE item = 'item-5' AND version = 3;

-- Result
SELECT cents, version FROM prices;
