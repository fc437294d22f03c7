-- The requests by state, for metrics. Above the cap the number of completed ones is PostgreSQL's estimate.
-- Caller: store/periodic/retain_batch.c, every ten seconds. Index: requests_expires, requests_leased.
-- $1 cap. Back: completed, pending, failed and lost requests.
SELECT greatest(CASE WHEN t.count < $1::bigint THEN t.count
                     ELSE greatest(t.count, (SELECT c.reltuples::bigint FROM pg_class c WHERE c.oid = 'inbox.requests'::regclass))
                END - o.pending - o.failed, 0), o.pending, o.failed, o.lost
FROM (SELECT count(*) FILTER (WHERE l.state = 'PENDING') AS pending, count(*) FILTER (WHERE l.state = 'FAILED') AS failed,
             count(*) FILTER (WHERE l.lost) AS lost
      FROM (SELECT s.state, s.lost FROM inbox.request_states s WHERE s.leased ORDER BY s.expires_at LIMIT $1::bigint) l) o
CROSS JOIN (SELECT count(*) FROM (SELECT FROM inbox.request_states LIMIT $1::bigint) l) t
