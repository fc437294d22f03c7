-- Deferred events that are due: heads of held keys, and released ones. In the order of their time, then of seq.
-- Caller: store/outbox, when the next one is due, and every second. Index: outbox_waiting; needs relay_settings.
-- $1 most rows, $2 bytes after which no further row comes, $3 seqs to leave out. Back: the columns of relay_page_begin.
-- include: relay_page_begin
            SELECT o.*, true AS fresh FROM inbox.outbox o
            WHERE o.available_at <= now() AND o.seq <> ALL ($3::bigint[])
            ORDER BY o.available_at, o.seq
            LIMIT $1::int
-- include: relay_page_end
