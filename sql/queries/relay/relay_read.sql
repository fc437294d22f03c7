-- The next rows behind the tip, in the order of seq (rule O1). A number that is missing between them, or between the tip
-- and the first, is a hole. A row that is published, dead or deferred is not fresh; its number is no hole.
-- Caller: store/outbox, at every poll. Index: outbox_pkey; needs relay_settings.
-- Named: with any statistics its plan is this index.
-- $1 most rows, $2 bytes after which no further row comes, $3 the tip. Back: the columns of relay_page_begin.
-- include: relay_page_begin
            SELECT o.*, num_nonnulls(o.available_at, o.published_at, o.dead_at) = 0 AS fresh
            FROM inbox.outbox o
            WHERE o.seq > $3::bigint
            ORDER BY o.seq
            LIMIT $1::int
-- include: relay_page_end
