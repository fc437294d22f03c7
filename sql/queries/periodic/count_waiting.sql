-- How many messages wait in the given streams (up to a cap for all together), and for how long. The age leaves out what an
-- operator has paused: topics, consumers, and consumers of which every handler is paused. Cheap.
-- Caller: store/claims/waiting_rows.c, paced by its own duration. Index: inbox_messages_due.
-- $1 topics, $2 partitions, $3 consumers, $4 cap. Back: waiting, milliseconds since the oldest was due.
SELECT (SELECT count(*)
        FROM (SELECT 1 FROM unnest($1::text[], $2::int[], $3::text[]) AS p(topic, kafka_partition, consumer)
              CROSS JOIN LATERAL (
                  SELECT 1 FROM inbox.inbox_messages m
                  WHERE m.topic = p.topic AND m.kafka_partition = p.kafka_partition AND m.consumer = p.consumer
                    AND m.available_at > '-infinity' AND m.available_at < 'infinity'
                  ORDER BY m.available_at, m.seq
                  LIMIT $4::bigint) w
              LIMIT $4::bigint) c),
       greatest(coalesce(extract(epoch FROM now() - min(f.available_at)) * 1000, 0), 0)::bigint
FROM (SELECT * FROM unnest($1::text[], $2::int[], $3::text[]) AS s(topic, kafka_partition, consumer)
      WHERE NOT EXISTS (SELECT FROM inbox.inbox_pauses x
                        WHERE x.kind = 'topic' AND x.name = s.topic OR x.kind = 'consumer' AND x.name = s.consumer)
        AND (SELECT bool_and(x.name IS NOT NULL) FROM inbox.inbox_handlers h
             LEFT JOIN inbox.inbox_pauses x ON x.kind = 'handler' AND x.name = h.name
             WHERE h.consumer = s.consumer) IS NOT TRUE) p
CROSS JOIN LATERAL (
    SELECT m.available_at FROM inbox.inbox_messages m
    WHERE m.topic = p.topic AND m.kafka_partition = p.kafka_partition AND m.consumer = p.consumer
      AND m.available_at > '-infinity' AND m.available_at < 'infinity'
    ORDER BY m.available_at, m.seq
    LIMIT 1) f
