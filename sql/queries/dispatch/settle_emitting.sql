-- Completes messages whose handlers emit events with the answer, and stores the events in the same statement: a claim
-- that is lost emits nothing (rule R7).
-- Caller: store/claims/settle.c. Index: inbox_messages_seq_key, outbox_pkey.
-- $1 own id, $2 seqs, $3 delivery counts, $4 places: the order of the events of different messages, $5 crash counts,
-- $6 results (NULL = keep), $7 events, $8 handlers. Back: seq and delivery count of those that were still ours.
-- CASE: as in settle_done.
WITH settled AS (
    UPDATE inbox.inbox_messages m
    SET processed_at = now(), crash_count = v.crash_count, suspect = false, handler = v.handler,
        result = coalesce(v.result, m.result)
    FROM unnest($2::bigint[], $3::int[], $4::int[], $5::int[], $6::jsonb[], $7::jsonb[], $8::text[])
         AS v(seq, delivery_count, place, crash_count, result, emit, handler)
    WHERE m.seq = v.seq
      AND CASE WHEN m.claimed_by = $1::int AND m.delivery_count = v.delivery_count
                AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL THEN true END
    RETURNING m.seq, m.delivery_count, m.source, m.event_id, m.consumer, m.replay_count, m.headers, v.emit, v.place
)
SELECT s.seq, s.delivery_count,
       inbox.emit_caused(s.seq, s.source, s.event_id, s.consumer, s.replay_count, s.headers, s.emit)
FROM (SELECT * FROM settled ORDER BY place) s
