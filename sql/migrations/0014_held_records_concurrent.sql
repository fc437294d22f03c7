-- Oldest sidecar: 3
-- The rejects that hold back the later records of their key, by the first bytes of its hash.

CREATE INDEX CONCURRENTLY IF NOT EXISTS inbox_rejects_holding ON inbox.inbox_rejects
    (topic, kafka_partition, substr(sha256(key), 1, 8), kafka_offset) WHERE holds;
