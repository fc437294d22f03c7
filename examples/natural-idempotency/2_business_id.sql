-- A business id: the message creates something that has a number of its own. What follows from it happens only if it is new.

-- Tables
CREATE TABLE accounts (id int PRIMARY KEY, cents bigint NOT NULL);
CREATE TABLE payments (payment_id text PRIMARY KEY, account int NOT NULL, cents bigint NOT NULL);
INSERT INTO accounts VALUES (1, 5000);

-- Effect
WITH new AS (
    INSERT INTO payments (payment_id, account, cents) VALUES ('pay-17', 1, 1250)
    ON CONFLICT (payment_id) DO NOTHING
    RETURNING account, cents
)
UPDATE accounts SET cents = accounts.cents + new.cents FROM new WHERE accounts.id = new.account;

-- Result
SELECT accounts.cents, (SELECT count(*) FROM payments) AS payments FROM accounts;
