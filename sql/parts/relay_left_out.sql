-- The seqs of $1 that the statement `recorded` has left out although their rows exist: somebody has locked them (rule R8).
-- The including statement closes the parenthesis.
SELECT a.seq FROM unnest($1::bigint[]) AS a(seq)
WHERE (SELECT count(*) FROM recorded) < cardinality($1::bigint[])
  AND a.seq NOT IN (SELECT r.seq FROM recorded r)
  AND (SELECT true FROM inbox.outbox o WHERE o.seq = a.seq
