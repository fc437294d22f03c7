-- Settles every other verdict (rule R7): completed with a result, dead, waiting again, parked.
-- Caller: store/claims/settle.c. Index: inbox_messages_seq_key.
-- $1 own id, $2 seqs, $3 delivery counts, $4 outcome (0 processed, 1 dead, 2 waiting, 3 parked),
-- $5 delay in ms, $6 retry counts, $7 crash counts, $8 suspect, $9 errors and $10 codes (NULL = keep),
-- $11 results, $12 handlers, kept of what ends here. What failed (dead, an attempt spent, a crash with its error) goes
-- to the history, which keeps the last ten of them and whatever operators did. A snooze can have an error, too, and is no
-- failure. Only a crash has an error and makes a suspect; its count was raised before the delivery, so it does not differ here.
-- Back: seq and delivery count of those that were still ours. CASE: as in settle_done.
UPDATE inbox.inbox_messages m
SET processed_at = CASE WHEN v.outcome = 0 THEN now() END,
    dead_at = CASE WHEN v.outcome = 1 THEN now() END,
    available_at = CASE v.outcome WHEN 2 THEN now() + v.delay_ms * interval '1 millisecond'
                                  WHEN 3 THEN 'infinity'::timestamptz END,
    claimed_by = CASE WHEN v.outcome < 2 THEN m.claimed_by END,
    retry_count = v.retry_count, crash_count = v.crash_count, suspect = v.suspect,
    error = coalesce(v.error, m.error), error_code = coalesce(v.error_code, m.error_code),
    result = coalesce(v.result, m.result),
    handler = CASE WHEN v.outcome < 2 THEN v.handler ELSE m.handler END,
    attempts = CASE WHEN v.outcome = 1 OR v.retry_count > m.retry_count OR (v.outcome = 2 AND v.suspect AND v.error IS NOT NULL)
               THEN (
        SELECT jsonb_agg(h.entry ORDER BY h.n)
        FROM (SELECT e.entry, e.n, e.entry ? 'attempt' AS failure,
                     row_number() OVER (PARTITION BY e.entry ? 'attempt' ORDER BY e.n DESC) AS age
              FROM jsonb_array_elements(coalesce(m.attempts, '[]') || jsonb_build_array(jsonb_strip_nulls(
                       jsonb_build_object('at', now(), 'attempt', greatest(v.retry_count, least(m.retry_count, 2147483646) + 1),
                           'handler', v.handler, 'error', left(v.error, 1000), 'code', v.error_code))))
                   WITH ORDINALITY AS e(entry, n)) h
        WHERE NOT h.failure OR h.age <= 10) ELSE m.attempts END
FROM unnest($2::bigint[], $3::int[], $4::smallint[], $5::bigint[], $6::int[], $7::int[], $8::boolean[],
            $9::text[], $10::text[], $11::jsonb[], $12::text[])
     AS v(seq, delivery_count, outcome, delay_ms, retry_count, crash_count, suspect, error, error_code, result,
          handler)
WHERE m.seq = v.seq
  AND CASE WHEN m.claimed_by = $1::int AND m.delivery_count = v.delivery_count
            AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL THEN true END
RETURNING m.seq, m.delivery_count
