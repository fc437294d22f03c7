-- Begins the statements that release parked rows for which a handler has subscribed: the rows `wanted` of a partition.
-- $1 topic, $2 partition, $4..$7 subscriptions.
WITH wanted AS MATERIALIZED (
    -- LATERAL lets the planner remember the answer for each type.
    SELECT m.seq FROM inbox.inbox_messages m
    CROSS JOIN LATERAL (
           SELECT s.open
           FROM unnest($4::text[], $5::text[], $6::smallint[], $7::boolean[])
                WITH ORDINALITY AS s(topic, type, kind, open, rank)
           WHERE (s.topic IS NULL OR s.topic = m.topic)
             AND CASE s.kind WHEN 0 THEN true
                             WHEN 1 THEN starts_with(m.event_type, s.type)
                             ELSE m.event_type = s.type END
           ORDER BY s.rank LIMIT 1) w
    WHERE m.topic = $1::text AND m.kafka_partition = $2::int
