-- Absolute value with a version: the message has the new value, and a number that grows with each change of it.

-- Tables
CREATE TABLE stock_levels (item text PRIMARY KEY, pieces int NOT NULL, version bigint NOT NULL);
INSERT INTO stock_levels VALUES ('item-5', 10, 2);

-- Effect: version 4 arrives, and then version 3, which was delayed
INSERT INTO stock_levels (item, pieces, version) VALUES ('item-5', 7, 4)
ON CONFLICT (item) DO UPDATE SET pieces = excluded.pieces, version = excluded.version
WHERE stock_levels.version < excluded.version;
INSERT INTO stock_levels (item, pieces, version) VALUES ('item-5', 12, 3)
ON CONFLICT (item) DO UPDATE SET pieces = excluded.pieces, version = excluded.version
WHERE stock_levels.version < excluded.version;

-- Result
SELECT pieces, version FROM stock_levels;
