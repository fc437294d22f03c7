-- The rows with the lowest numbers, in case one appeared below the floor: a restore, or an INSERT with a number of its
-- own. Rows that are not fresh come too, so the cost of a page has a limit.
-- Caller: store/outbox, after the election until it has seen all up to the floor, then every minute. Index: outbox_pkey;
-- needs relay_settings.
-- $1 most rows, $2 bytes after which no further row comes, $3 the last seq of the page before, $4 the floor. Back: the
-- columns of relay_page_begin.
-- include: relay_page_begin
            SELECT o.*, num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0 AS fresh
            FROM inbox.outbox o
            WHERE o.seq > $3::bigint AND o.seq <= $4::bigint
            ORDER BY o.seq
            LIMIT $1::int
-- include: relay_page_end
