-- Fails if row-level security hides rows of a table from this user (store/pg/db.c). Returns no row.
-- Caller: store/schema/privileges.c, for `inboxd check`. Index: none; it reads nothing.
SELECT
FROM inbox.inbox_messages, inbox.inbox_offsets, inbox.inbox_instances, inbox.inbox_rejects, inbox.inbox_conflicts,
     inbox.inbox_dead_topic, inbox.inbox_handlers, inbox.inbox_consumers, inbox.inbox_renames, inbox.inbox_binding, inbox.outbox,
     inbox.outbox_relay, inbox.request_states, inbox.inbox_schema_version, inbox.inbox_pauses
WHERE false
