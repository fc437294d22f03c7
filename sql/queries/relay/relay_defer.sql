-- Records events that could not be published (rule O5): tried again after a delay, parked behind an earlier event of
-- their key or topic, or dead. Leaves out rows that somebody has locked.
-- Caller: store/outbox, behind relay_hold in its transaction. Index: outbox_pkey.
-- $1 seqs, $2 outcome (0 tried again, 1 parked, 2 dead), $3 delay in ms, $4 retry counts, $5 errors and $6 codes (NULL =
-- keep), $7 own id: nothing happens if relay_hold has found no row. Back: the seqs that were left out. An event that an operator has
-- discarded meanwhile does not change, and is not left out.
WITH recorded AS (
    UPDATE inbox.outbox o
    SET available_at = CASE t.outcome WHEN 0 THEN now() + t.delay_ms * interval '1 millisecond'
                                      WHEN 1 THEN 'infinity'::timestamptz END,
        dead_at = CASE WHEN t.outcome = 2 THEN now() END,
        retry_count = t.retry_count, error = coalesce(t.error, o.error), error_code = coalesce(t.error_code, o.error_code)
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::int[], $5::text[], $6::text[])
         AS t(seq, outcome, delay_ms, retry_count, error, error_code)
    WHERE o.seq = t.seq AND o.published_at IS NULL AND o.dead_at IS NULL
      AND EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.instance = $7::int)
-- include: relay_free
    RETURNING o.seq
)
-- include: relay_left_out
    AND o.published_at IS NULL AND o.dead_at IS NULL)
