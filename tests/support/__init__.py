"""Real servers and small helpers for every suite; the standard library is all the servers need."""
