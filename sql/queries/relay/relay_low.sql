-- The rows with low numbers that are to be published, in case one appeared below the tip: a restore, an INSERT with a number of
-- its own, or a state that somebody has cleared. A range of numbers, because dead index entries count as little as rows
-- that are kept: a limit of rows would not limit the cost.
-- Caller: store/outbox, after the election until it has seen all up to the tip, then again and again. Index: outbox_pkey;
-- needs relay_settings.
-- $1 most rows, $2 bytes after which no further row comes, $3 the last seq of the range before, $4 the last seq of this one. Back:
-- the columns of relay_page_begin.
-- include: relay_page_begin
            SELECT o.*, true AS fresh
            FROM inbox.outbox o
            WHERE o.seq > $3::bigint AND o.seq <= $4::bigint
              AND num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0
            ORDER BY o.seq
            LIMIT $1::int
-- include: relay_page_end
