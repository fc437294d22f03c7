-- Forgets a consumer.
-- Caller: ops/handlers.c. Index: inbox_consumers_pkey (small table).
-- $1 name, $2 reason. Back: whether there was one, and how many messages wait for it (10000 = or more).
SELECT inbox.forget_consumer($1::text, $2::text),
       coalesce((SELECT c.waiting FROM inbox.consumers c WHERE c.name = $1::text), 0)
