-- Which of these deferred events are deferred no longer: an operator may have discarded the head of a key.
-- Caller: store/outbox, every few seconds while keys or topics are held. Index: outbox_pkey.
-- $1 seqs. Back: their places in $1, from 0. The subquery hides the state from the planner, which would read the index of
-- all deferred events.
SELECT a.place - 1
FROM unnest($1::bigint[]) WITH ORDINALITY AS a(seq, place)
WHERE (SELECT o.available_at IS NOT NULL FROM inbox.outbox o WHERE o.seq = a.seq) IS NOT TRUE
