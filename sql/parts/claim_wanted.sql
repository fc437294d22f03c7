-- Whether a type `d` is wanted: the most specific subscription `s` that fits it decides. Included after the unnest of
-- the subscriptions, whose parameters have different numbers in each statement.
                     WHERE s.consumer = d.consumer AND (s.topic IS NULL OR s.topic = d.topic)
                       AND CASE s.kind WHEN 0 THEN true
                                       WHEN 1 THEN starts_with(d.event_type, s.type)
                                       ELSE d.event_type = s.type END
                     ORDER BY s.rank LIMIT 1), false) AS wanted
