-- The row o is not locked by anybody else, or this transaction could lock it. xmax is 0 if nobody has ever locked this version of
-- the row, so most rows need no lock before the statement writes them. If somebody locks a row after it was looked at here,
-- the statement waits for up to lock_timeout; the caller repeats it.
      AND CASE WHEN o.xmax = 0 THEN true
               ELSE (SELECT true FROM inbox.outbox l WHERE l.seq = o.seq FOR UPDATE SKIP LOCKED) END
