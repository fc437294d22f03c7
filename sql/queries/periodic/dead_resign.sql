-- Lets another instance try to produce to the dead topic.
-- Caller: store/periodic/dead_messages.c, after a failure and at the end. Index: none (one row).
-- $1 own id.
UPDATE inbox.inbox_dead_topic SET instance = NULL WHERE instance = $1::int
