-- How many parked messages wait for a handler, up to a cap: no handler is registered for them, or it is away. Reads
-- at most that many parked rows of a stream.
-- Caller: store/claims/waiting_rows.c, paced by its own duration. Index: inbox_messages_due.
-- $1 topics, $2 partitions, $3 consumers, $4 cap, $5..$9 subscriptions; the last: whether the handler is connected here.
-- $10 the handlers of the subscriptions.
-- LATERAL lets the planner remember the answer for each type.
-- Back: how many, without those that an operator has paused; milliseconds since the oldest of these was received; how many are
-- paused.
SELECT count(*) FILTER (WHERE NOT u.paused),
       coalesce(extract(epoch FROM now() - min(u.received_at) FILTER (WHERE NOT u.paused)) * 1000, 0)::bigint,
       count(*) FILTER (WHERE u.paused)
FROM (SELECT m.received_at,
             EXISTS (SELECT FROM inbox.inbox_pauses x
                     WHERE x.kind = 'topic' AND x.name = m.topic OR x.kind = 'consumer' AND x.name = m.consumer
                        OR x.kind = 'handler' AND x.name = w.handler) AS paused
      FROM unnest($1::text[], $2::int[], $3::text[]) AS p(topic, kafka_partition, consumer)
      CROSS JOIN LATERAL (
          SELECT r.topic, r.consumer, r.event_type, r.received_at FROM inbox.inbox_messages r
          WHERE r.topic = p.topic AND r.kafka_partition = p.kafka_partition AND r.consumer = p.consumer
            AND r.available_at = 'infinity'
          ORDER BY r.seq
          LIMIT $4::bigint) m
      LEFT JOIN LATERAL (
          SELECT s.here, s.handler
          FROM unnest($5::text[], $6::text[], $7::text[], $8::smallint[], $9::boolean[], $10::text[])
               WITH ORDINALITY AS s(consumer, topic, type, kind, here, handler, rank)
          WHERE s.consumer = m.consumer AND (s.topic IS NULL OR s.topic = m.topic)
            AND CASE s.kind WHEN 0 THEN true
                            WHEN 1 THEN starts_with(m.event_type, s.type)
                            ELSE m.event_type = s.type END
          ORDER BY s.rank LIMIT 1) w ON true
      WHERE w.here IS NOT TRUE
      LIMIT $4::bigint) u
