-- Oldest sidecar: 3
-- The indexes of waiting rows have the consumer: the rows of each are searched alone. The predicates are those of the
-- indexes that they replace; 0001_baseline.sql explains them.

-- Claims: the due messages of a partition for a consumer, the oldest first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_due ON inbox.inbox_messages
    (topic, kafka_partition, consumer, available_at, seq) WHERE available_at > '-infinity';
-- Order by key: the waiting messages of a key. Eight bytes of the key's hash, not the key.
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_by_key ON inbox.inbox_messages
    (topic, kafka_partition, consumer, substr(sha256(key), 1, 8), kafka_offset)
    WHERE available_at IS NOT NULL AND seq > 0;
-- Order by partition: the waiting messages of a partition.
CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_messages_by_offset ON inbox.inbox_messages
    (topic, kafka_partition, consumer, kafka_offset) WHERE available_at IS NOT NULL AND kafka_offset >= 0;
DROP INDEX CONCURRENTLY IF EXISTS inbox.inbox_messages_claim;
DROP INDEX CONCURRENTLY IF EXISTS inbox.inbox_messages_key;
DROP INDEX CONCURRENTLY IF EXISTS inbox.inbox_messages_position;
