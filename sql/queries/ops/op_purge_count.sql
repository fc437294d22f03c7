-- How many messages a purge would delete, and the time of the count: the age of a message is its age at this time. Reads the whole table, because no index has the time of processing.
-- Caller: ops/purge.c. Index: none.
-- $1 age in ms, $2 most (NULL = all).
SELECT count(*), (extract(epoch FROM now()) * 1000000)::bigint
FROM (SELECT FROM inbox.inbox_messages m
      WHERE m.processed_at <= now() - $1::bigint * interval '1 millisecond'
      LIMIT $2::bigint) p
