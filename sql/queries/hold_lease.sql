-- Holds the own lease for the length of a transaction that claims (rule R4): whoever fences this
-- instance waits for it, and a fenced one finds no row.
-- Caller: store/inbox.c and store/claims.c, first in the transaction. Index: inbox_instances_pkey.
-- $1 own id.
SELECT 1 FROM inbox.inbox_instances
-- include: lease
FOR KEY SHARE
