-- Which of these deferred events are still deferred: an operator may have discarded the head of a key.
-- Caller: store/outbox, every few seconds while keys or topics are held. Index: outbox_pkey.
-- $1 seqs. CASE hides the state from the planner, which would read the index of all deferred events.
SELECT o.seq FROM inbox.outbox o
WHERE o.seq = ANY ($1::bigint[]) AND CASE WHEN o.available_at IS NOT NULL THEN true END
