-- Single values of inbox.status(), as cells.
-- Caller: ops/status.c. Index: none (its argument).
-- $1 the status.
SELECT f.name, f.value
FROM (
    SELECT n, replace(v.name, '_', ' ') AS name, coalesce($1::jsonb ->> v.name, '-')
           || CASE WHEN $1::jsonb ->> v.name = '10000' OR (v.name = 'claimed' AND $1::jsonb -> 'claimed_is_exact' = 'false')
                   THEN ' or more' ELSE '' END AS value
    FROM unnest(ARRAY['waiting', 'parked', 'claimed', 'dead', 'rejects', 'conflicts', 'oldest_waiting_seconds', 'messages_estimate',
                      'schema_version', 'cluster_id', 'group_id']) WITH ORDINALITY AS v(name, n)
    UNION ALL
    SELECT 100 + e.n, 'backfill', concat('to the consumer ', quote_literal(b ->> 'consumer'), ' by ', b ->> 'who', ': ', b ->> 'copied',
               ' copied since ', to_char((b ->> 'began_at')::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ', at seq ',
               b ->> 'seq', ' of ', b ->> 'until_seq', CASE WHEN b -> 'runs' = 'true' THEN ', runs'
                   WHEN (b ->> 'seq')::bigint >= (b ->> 'until_seq')::bigint THEN ', has ended'
                   ELSE ', has ended, or was interrupted: no command runs it now' END)
    FROM jsonb_array_elements($1::jsonb -> 'backfills') WITH ORDINALITY AS e(b, n)
) f
ORDER BY f.n
