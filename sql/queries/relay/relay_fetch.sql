-- Parked events whose key is free again, in the order of seq. They leave the state parked when they are published, so
-- nothing has to be written to release them. Also those that could not be parked, because their row was locked.
-- Caller: store/outbox, after relay_parked. Index: outbox_pkey; needs relay_settings.
-- $1 most rows, $2 bytes after which no further row comes, $3 their seqs. Back: the columns of relay_page_begin.
-- CASE hides the state from the planner, which could otherwise follow an index of the states.
-- include: relay_page_begin
            SELECT o.*, true AS fresh FROM inbox.outbox o
            WHERE o.seq = ANY ($3::bigint[]) AND CASE WHEN num_nonnulls(o.published_at, o.dead_at) = 0 THEN true END
            ORDER BY o.seq
            LIMIT $1::int
-- include: relay_page_end
