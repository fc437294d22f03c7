-- Whether a message or a partition was ever stored here. If not, indexes are built in a transaction, because no session
-- would wait for it.
-- Caller: store/schema/migrate.c. Index: inbox_messages_pkey, inbox_offsets_pkey (a row of each).
SELECT EXISTS (SELECT FROM inbox.inbox_messages) OR EXISTS (SELECT FROM inbox.inbox_offsets)
