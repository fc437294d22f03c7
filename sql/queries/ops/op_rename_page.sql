-- Moves a page of messages of a renamed consumer to the new name.
-- Caller: ops/handlers.c. Index: inbox_messages_seq_key, inbox_messages_pkey, inbox_renames_pkey (small table).
-- $1 earlier name, $2 rows to look at. Back: how many moved, whether another page follows, and whether a sidecar lists the new
-- name, or an earlier one.
SELECT p.affected, p.more,
       EXISTS (SELECT FROM inbox.inbox_renames r JOIN inbox.inbox_consumers c ON c.name = r.new_name
               WHERE r.old_name = $1::text AND c.listed_at < 'infinity')
FROM inbox.rename_page($1::text, $2::int) p
