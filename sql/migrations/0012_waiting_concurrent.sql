-- Three indexes of what waits, built while messages come and go. Their predicates differ in a part that every row meets,
-- and a statement says the one of the index it is meant for: statistics from a time when nothing waited tell the planner
-- that any of them is as good, and the wrong one means to read everything that waits by now. What they are for: 0001.
-- An inbox that an earlier 0007 has migrated has them already.
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_claim ON inbox.inbox_messages
    (topic, kafka_partition, available_at, seq) WHERE available_at > '-infinity';
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_key ON inbox.inbox_messages
    (topic, kafka_partition, substr(sha256(key), 1, 8), kafka_offset) WHERE available_at IS NOT NULL AND seq > 0;
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_position ON inbox.inbox_messages
    (topic, kafka_partition, kafka_offset) WHERE available_at IS NOT NULL AND kafka_offset >= 0;
DROP INDEX CONCURRENTLY IF EXISTS inbox.inbox_messages_claim_0001;
DROP INDEX CONCURRENTLY IF EXISTS inbox.inbox_messages_key_0001;
DROP INDEX CONCURRENTLY IF EXISTS inbox.inbox_messages_position_0001;
