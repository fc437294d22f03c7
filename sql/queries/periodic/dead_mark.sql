-- Marks these deaths as produced to the dead topic. A locked row is left for later (rule R8).
-- Caller: store/periodic/dead_messages.c, after the brokers have confirmed. Index: inbox_messages_seq_key.
-- $1 seqs, $2 their dead_at in microseconds. Back: the seqs that are done: marked, or no longer dead with this time.
WITH told AS MATERIALIZED (
    SELECT t.seq, timestamptz 'epoch' + t.died_us * interval '1 microsecond' AS died_at
    FROM unnest($1::bigint[], $2::bigint[]) AS t(seq, died_us)
), still AS MATERIALIZED (
    SELECT m.seq FROM told t JOIN inbox.inbox_messages m ON m.seq = t.seq
    WHERE m.dead_at = t.died_at
), free AS MATERIALIZED (
    SELECT m.seq FROM inbox.inbox_messages m
    WHERE m.seq IN (SELECT s.seq FROM still s) AND m.dead_at IS NOT NULL
    FOR NO KEY UPDATE SKIP LOCKED
), noted AS (
    UPDATE inbox.inbox_messages m SET dead_topic_at = m.dead_at
    FROM free f, told t
    WHERE m.seq = f.seq AND t.seq = m.seq AND m.dead_at = t.died_at
    RETURNING m.seq
)
SELECT t.seq FROM told t
WHERE t.seq IN (SELECT n.seq FROM noted n) OR t.seq NOT IN (SELECT s.seq FROM still s)
