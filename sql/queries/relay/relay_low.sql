-- The rows with the lowest numbers, in case one appeared below the floor: a restore, or an INSERT with a number of its
-- own. Not only fresh rows count for $1, so the cost has a limit.
-- Caller: store/outbox, every minute. Index: outbox_pkey; needs relay_settings.
-- $1 most rows, $2 bytes after which no further row comes, $3 the floor. Back: the columns of relay_page_begin; fresh
-- rows up to the floor only.
-- include: relay_page_begin
            SELECT l.*, true AS fresh
            FROM (SELECT * FROM inbox.outbox o ORDER BY o.seq LIMIT $1::int) l
            WHERE l.seq <= $3::bigint AND num_nonnulls(l.available_at, l.published_at, l.dead_at) = 0
-- include: relay_page_end
