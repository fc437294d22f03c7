-- How many messages of the given partitions wait for consumers that are not known, up to a cap for all together. Reads
-- only the ranges between the known names, so rows of known consumers cost nothing. In a name, '!' is lower and '~' is
-- higher than every character.
-- Caller: store/claims/waiting_rows.c, every ten seconds. Index: inbox_messages_due.
-- $1 topics, $2 partitions (with repetitions), $3 known consumers, $4 cap. Back: consumer, how many.
WITH own AS MATERIALIZED (
    SELECT DISTINCT p.topic, p.kafka_partition FROM unnest($1::text[], $2::int[]) AS p(topic, kafka_partition)
), gaps AS MATERIALIZED (
    SELECT coalesce(lag(k.name) OVER (ORDER BY k.name COLLATE "C") || '!', '') AS low, k.name AS high
    FROM unnest($3::text[] || '~'::text) AS k(name)
)
SELECT n.consumer, count(*)
FROM (SELECT m.consumer
      FROM own p
      CROSS JOIN gaps g
      CROSS JOIN LATERAL (
          SELECT r.consumer FROM inbox.inbox_messages r
          WHERE r.topic = p.topic AND r.kafka_partition = p.kafka_partition
            AND r.consumer >= g.low AND r.consumer < g.high AND r.available_at > '-infinity'
          LIMIT $4::bigint) m
      LIMIT $4::bigint) n
GROUP BY n.consumer
ORDER BY n.consumer
