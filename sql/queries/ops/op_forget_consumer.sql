-- Forgets a consumer.
-- Caller: ops/handlers.c. Index: inbox_consumers_pkey (small table).
-- $1 name, $2 reason. Back: whether there was one, how many messages wait for it (10000 = or more), and whether a
-- sidecar has just listed it.
SELECT inbox.forget_consumer($1::text, $2::text), coalesce(c.waiting, 0), coalesce(c.status = 'listed', false)
FROM (SELECT) one
LEFT JOIN inbox.consumers c ON c.name = $1::text
