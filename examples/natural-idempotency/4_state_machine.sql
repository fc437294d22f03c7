-- A state machine: a message moves the order only from the states that come before, and keeps the time of the first move.

-- Tables
CREATE TABLE orders (id bigint PRIMARY KEY, status text NOT NULL, paid_at timestamptz, shipped_at timestamptz);
INSERT INTO orders VALUES (17, 'paid', '2026-11-01 10:00Z', NULL), (18, 'shipped', '2026-11-01 10:00Z', '2026-11-02 10:00Z');

-- Effect: both orders are shipped, order 18 for the second time, and the payment of order 17 comes again
UPDATE orders SET status = 'shipped', shipped_at = coalesce(shipped_at, now())
WHERE id = 17 AND status IN ('paid', 'shipped');
UPDATE orders SET status = 'shipped', shipped_at = coalesce(shipped_at, now())
WHERE id = 18 AND status IN ('paid', 'shipped');
UPDATE orders SET status = 'paid', paid_at = coalesce(paid_at, now())
WHERE id = 17 AND status IN ('new', 'paid');

-- Result
SELECT id, status, shipped_at = '2026-11-02 10:00Z' AS was_shipped_before FROM orders ORDER BY id;
