-- Who leaves the group for want of a handler is decided by one instance after the other, so that two never
-- leave for each other (rule R16).
-- Caller: store/instance.c, before check_missing_handlers. Index: none.
SELECT pg_advisory_xact_lock(hashtextextended('inboxd absence ' || 'inbox.inbox_instances'::regclass::oid, 0))
