-- Begins the statements that release parked rows for which a handler has subscribed: the rows `wanted` of a partition.
-- $1 topic, $2 partition, $3 consumer, $5..$9 subscriptions.
WITH wanted AS MATERIALIZED (
    -- LATERAL lets the planner remember the answer for each type.
    SELECT m.seq FROM inbox.inbox_messages m
    CROSS JOIN LATERAL (
           SELECT s.open
           FROM unnest($5::text[], $6::text[], $7::text[], $8::smallint[], $9::boolean[])
                WITH ORDINALITY AS s(consumer, topic, type, kind, open, rank)
           WHERE s.consumer = m.consumer AND (s.topic IS NULL OR s.topic = m.topic)
             AND CASE s.kind WHEN 0 THEN true
                             WHEN 1 THEN starts_with(m.event_type, s.type)
                             ELSE m.event_type = s.type END
           ORDER BY s.rank LIMIT 1) w
    WHERE m.topic = $1::text AND m.kafka_partition = $2::int AND m.consumer = $3::text
