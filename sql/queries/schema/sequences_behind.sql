-- Which sequences are behind the rows of their tables, and for each the statement that sets it.
-- Caller: store/schema/sequences.c, before an instance registers. Index: inbox_messages_seq_key, inbox_conflicts_pkey,
-- inbox_rejects_pkey, inbox_audit_pkey: one probe each.
SELECT b.sequence, b.last, b.highest, format('SELECT pg_catalog.setval(%L, %s)', b.sequence, b.highest)
FROM inbox.sequences_behind() AS b
