-- Ends the three statements that rescue: locks the rows `free` among those that are `stale`, gives them back, and
-- reports the window `span`. $1 to $3 as in rescue_born.
    FOR NO KEY UPDATE SKIP LOCKED
), freed AS (
    UPDATE inbox.inbox_messages m SET available_at = now(), claimed_by = NULL,
           suspect = m.suspect OR m.rescue_count > 0, rescue_count = least(m.rescue_count, 2147483646) + 1
    FROM free WHERE m.seq = free.seq
    RETURNING 1
)
SELECT (SELECT count(*) FROM freed), (SELECT count(*) FROM stale) - (SELECT count(*) FROM free),
       span.behind, span.behind < $2::bigint + $3::bigint
FROM span
