-- Whether the partition o is assigned to no member and has waiting messages (rule R6): the owner has not been a live instance for
-- that time, or it is this instance, which released it while the database was down.
-- Included by list_orphans and look_at_table. Index: inbox_messages_due (one row a partition).
-- $1 own id, $2 for how long in ms.
o.updated_at < now() - $2::bigint * interval '1 millisecond'
  AND (o.owner = $1::int
       OR NOT EXISTS (SELECT FROM inbox.inbox_instances i WHERE i.id = o.owner AND i.fenced_at IS NULL))
  AND (SELECT true FROM inbox.inbox_messages m
       WHERE m.topic = o.topic AND m.kafka_partition = o.kafka_partition AND m.available_at > '-infinity'
       LIMIT 1)
