-- A time as PostgreSQL reads it, in ms since 1970; NULL = infinity.
-- Caller: ops/seek.c. Index: none, no table is read.
-- $1 the time.
SELECT CASE WHEN isfinite(t.at) THEN floor(extract(epoch FROM t.at) * 1000)::bigint END
FROM (SELECT $1::text::timestamptz AS at) t
