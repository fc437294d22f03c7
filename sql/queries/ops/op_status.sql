-- inbox.status(), unchanged.
-- Caller: ops/status.c. Index: inbox_messages_due, inbox_messages_dead.
SELECT inbox.status()::text
