-- Releases parked rows without a key, which no order holds back, that a handler wants now (rule R15).
-- Caller: store/claims/waiting_rows.c, after a subscription came and every few seconds. Index: inbox_messages_by_key.
-- $1 topic, $2 partition, $3 consumer, $4 most rows, $5..$9 subscriptions.
-- include: release_begin
      AND substr(sha256(m.key), 1, 8) IS NULL AND m.available_at IS NOT NULL AND m.seq > 0
      AND m.available_at = 'infinity'
      AND w.open
    ORDER BY m.kafka_offset
    LIMIT $4::int
    FOR UPDATE OF m SKIP LOCKED
)
UPDATE inbox.inbox_messages m SET available_at = now()
FROM wanted WHERE m.seq = wanted.seq
