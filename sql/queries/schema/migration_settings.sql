-- Settings of this user or database that would end a long statement, and the values to use instead. A statement
-- outside a transaction cannot have settings of its own, so they are set for the session.
-- Caller: store/schema/migrate_online.c. Index: none (settings).
SELECT s.name, w.value
FROM (VALUES ('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'),
             ('default_transaction_read_only', 'off')) AS w(name, value)
JOIN pg_settings s ON s.name = w.name AND s.reset_val <> w.value
