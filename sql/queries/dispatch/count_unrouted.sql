-- How many parked messages wait for a handler, up to a cap: no handler is registered for them, or it is away. Reads
-- at most that many parked rows of a partition.
-- Caller: store/claims/waiting_rows.c, paced by its own duration. Index: inbox_messages_claim.
-- $1 topics, $2 partitions, $3 cap, $4..$7 subscriptions; the last: whether the handler is connected here.
-- LATERAL lets the planner remember the answer for each type.
-- Back: how many, milliseconds since the oldest was received.
SELECT count(*), coalesce(extract(epoch FROM now() - min(u.received_at)) * 1000, 0)::bigint
FROM (SELECT m.received_at
      FROM unnest($1::text[], $2::int[]) AS p(topic, kafka_partition)
      CROSS JOIN LATERAL (
          SELECT r.topic, r.event_type, r.received_at FROM inbox.inbox_messages r
          WHERE r.topic = p.topic AND r.kafka_partition = p.kafka_partition
            AND r.available_at = 'infinity'
          ORDER BY r.seq
          LIMIT $3::bigint) m
      LEFT JOIN LATERAL (
          SELECT s.here
          FROM unnest($4::text[], $5::text[], $6::smallint[], $7::boolean[])
               WITH ORDINALITY AS s(topic, type, kind, here, rank)
          WHERE (s.topic IS NULL OR s.topic = m.topic)
            AND CASE s.kind WHEN 0 THEN true
                            WHEN 1 THEN starts_with(m.event_type, s.type)
                            ELSE m.event_type = s.type END
          ORDER BY s.rank LIMIT 1) w ON true
      WHERE w.here IS NOT TRUE
      LIMIT $3::bigint) u
