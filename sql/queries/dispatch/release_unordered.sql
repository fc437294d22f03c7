-- Releases parked rows that a handler wants now, where nothing is ordered (rule R15).
-- Caller: store/claims/waiting_rows.c, after a subscription came and every few seconds. Index: inbox_messages_due.
-- $1 topic, $2 partition, $3 consumer, $4 most rows, $5..$9 subscriptions.
-- include: release_begin
      AND m.available_at = 'infinity'
      AND w.open
    ORDER BY m.seq
    LIMIT $4::int
    FOR UPDATE OF m SKIP LOCKED
)
UPDATE inbox.inbox_messages m SET available_at = now()
FROM wanted WHERE m.seq = wanted.seq
