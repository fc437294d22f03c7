-- Which of these rows can be locked now. A locked row belongs to its handler's transaction, and no settle waits for
-- it (rule R8).
-- Caller: store/claims/settle.c, after a settle ran into lock_timeout. Index: inbox_messages_seq_key.
-- $1 seqs. Back: seq and delivery count.
SELECT seq, delivery_count FROM inbox.inbox_messages WHERE seq = ANY ($1::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
