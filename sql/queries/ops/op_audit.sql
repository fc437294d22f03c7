-- What operators did, the newest first, as cells of a table and as one JSON object each. Each row also has the number of
-- actions that fit, among the last 100000 of the table. The filter is checked although the table may be empty.
-- Caller: ops/list.c. Index: inbox_audit_pkey.
-- $1 filter (received_from, received_to: of the action, who, action or the first words of it: skip is skip_key), $2 most rows.
SELECT to_char(a.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), a.who, a.action, a.affected::text,
       a.reason, w.words, (to_jsonb(a) - 'total')::text, a.total
FROM (SELECT inbox.check_filter('audit', $1::jsonb - '{who,action}'::text[] || '{"status": "any"}', '{any}') AS filter OFFSET 0) f
CROSS JOIN LATERAL (
    SELECT l.seq, l.at, l.who, l.action, l.filter, l.reason, l.affected, count(*) OVER () AS total
    FROM (SELECT * FROM inbox.inbox_audit ORDER BY seq DESC LIMIT 100000) l
    WHERE (f.filter ->> 'received_from' IS NULL OR l.at >= (f.filter ->> 'received_from')::timestamptz)
      AND (f.filter ->> 'received_to' IS NULL OR l.at < (f.filter ->> 'received_to')::timestamptz)
      AND ($1::jsonb ->> 'who' IS NULL OR l.who = $1::jsonb ->> 'who')
      AND ($1::jsonb ->> 'action' IS NULL OR starts_with(l.action || '_', ($1::jsonb ->> 'action') || '_'))
) a
CROSS JOIN LATERAL (
    SELECT string_agg(e.name || '=' || e.value, ' ' ORDER BY e.n) AS words
    FROM jsonb_each_text(a.filter) WITH ORDINALITY AS e(name, value, n)) w
ORDER BY a.seq DESC
LIMIT $2::int
