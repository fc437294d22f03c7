-- The consumers of the schema that a configuration does not list, under their name or an earlier one, although they are known, or
-- messages or handlers wait for them.
-- Caller: ops/check.c. Index: inbox_consumers_pkey, inbox_renames_pkey, inbox_handlers_pkey (small tables), inbox_messages_due.
-- $1 the names that the configuration lists. Back: name, how many messages wait (10000 = or more), its handlers, whether it has lapsed.
SELECT c.name, least(c.waiting, 10000), array_to_string(h.names, ', '), c.status = 'lapsed'
FROM inbox.consumers c
CROSS JOIN LATERAL (
    SELECT array_agg(k.name ORDER BY k.name) AS names FROM inbox.handlers k
    WHERE k.consumer = c.name AND k.status <> 'lapsed') h
WHERE c.name <> ALL ($1::text[])
  AND NOT EXISTS (SELECT FROM inbox.inbox_renames r WHERE r.new_name = c.name AND r.old_name = ANY ($1::text[]))
  AND (c.status <> 'lapsed' OR c.waiting > 0 OR h.names IS NOT NULL)
ORDER BY c.name
