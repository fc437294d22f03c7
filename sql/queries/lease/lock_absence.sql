-- Instances decide one after the other whether to leave the group because they lack a handler, so that two never
-- leave because of each other (rule R16).
-- Caller: store/leases/instance.c, before check_missing_handlers. Index: none.
SELECT pg_advisory_xact_lock(hashtextextended('inboxd absence ' || 'inbox.inbox_instances'::regclass::oid, 0))
