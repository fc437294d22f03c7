-- What this user or database sets that would cut a long statement off, and what it should be. A statement outside a
-- transaction can have no settings of its own: the session gets them.
-- Caller: store/migrate_online.c. Index: none (settings).
SELECT s.name, w.value
FROM (VALUES ('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'),
             ('default_transaction_read_only', 'off')) AS w(name, value)
JOIN pg_settings s ON s.name = w.name AND s.reset_val <> w.value
