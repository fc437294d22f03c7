-- Oldest sidecar: 3
-- What a newer inboxd might do beside readers and writers: one index of all rows is made, another one comes and goes.
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_next ON inbox.inbox_messages (topic, received_at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_brief ON inbox.inbox_messages (seq)
    WHERE available_at IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS inbox.inbox_messages_brief;
