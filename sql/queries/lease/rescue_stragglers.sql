-- Gives back the stragglers of a dead instance, its oldest open rows, which lie below its low_rest (rule R3).
-- Otherwise as rescue_born.
-- Caller: store/leases/rescue.c, window by window. Index: inbox_messages_seq_key.
-- $1 dead id, $2 from which of them, $3 width of the window.
-- Back: rows freed, rows locked, where to go on, whether the end is reached.
WITH span AS MATERIALIZED (
    SELECT named.seqs, $2::bigint AS first, least($2::bigint + $3::bigint, cardinality(named.seqs) + 1) AS behind
    FROM (SELECT coalesce((SELECT i.stragglers FROM inbox.inbox_instances i WHERE i.id = $1::int), '{}') AS seqs) named
), stale AS MATERIALIZED (
    SELECT m.seq
    FROM span
    CROSS JOIN LATERAL unnest(span.seqs[span.first::int:span.behind::int - 1]) AS s(seq)
    JOIN inbox.inbox_messages m ON m.seq = s.seq
    WHERE m.claimed_by = $1::int
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
), free AS MATERIALIZED (
    SELECT m.seq FROM inbox.inbox_messages m
    WHERE m.seq IN (SELECT seq FROM stale) AND m.claimed_by = $1::int
      AND m.processed_at IS NULL AND m.dead_at IS NULL AND m.available_at IS NULL
    -- include: rescue_end
