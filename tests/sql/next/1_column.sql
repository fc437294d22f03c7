-- Oldest sidecar: 3
-- What a newer inboxd might do in a transaction: every reader and writer waits for this lock, and it for them.
ALTER TABLE inbox.inbox_messages ADD COLUMN next int;
