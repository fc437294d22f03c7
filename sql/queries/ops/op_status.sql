-- inbox.status(), unchanged.
-- Caller: admin/ops/op_status.c. Index: inbox_messages_claim, inbox_messages_dead.
SELECT inbox.status()::text
