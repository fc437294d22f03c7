-- Rows that appeared in holes, and the horizon (rule O1). A hole that this answer shows no row for is given up if the
-- horizon has reached a transaction that began after the hole was seen, unless the page was cut: by $1 or by $2.
-- Caller: store/outbox, at every poll while there are holes. Index: outbox_pkey; needs relay_settings.
-- $1 most rows, $2 bytes after which no further row comes, $3 and $4 first and last seq of each hole. Back: the columns
-- of relay_page_begin, and the horizon; one row with the horizon alone if there is no event. The lowest rows come, because
-- the nested loop follows the holes: if the page is cut, no event is left out that precedes one in the page.
SELECT e.*, h.xmin
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xmin) h
LEFT JOIN (
-- include: relay_page_begin
            SELECT o.*, true AS fresh
            FROM unnest($3::bigint[], $4::bigint[]) AS a(first, last)
            CROSS JOIN LATERAL (
                SELECT o.* FROM inbox.outbox o
                WHERE o.seq >= a.first AND o.seq <= a.last
                  AND num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0
                ORDER BY o.seq LIMIT $1::int) o
            LIMIT $1::int
-- include: relay_page_end
) e ON true
