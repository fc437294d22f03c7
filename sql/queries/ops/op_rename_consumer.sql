-- Begins to rename a consumer.
-- Caller: ops/handlers.c. Index: inbox_messages_due, inbox_messages_claimed, inbox_messages_seq_key, inbox_messages_pkey, inbox_renames_pkey (small table).
-- $1 name, $2 new name, $3 reason. Back: how many messages were not done; NULL = the rename had begun already.
SELECT inbox.rename_consumer($1::text, $2::text, $3::text)
