"""Mutants: each one removes a rule of docs/rules.md from the sources; run.py expects a test to fail."""

from mutants import bridges, consumers, damage, handlers, memory, migrating, operations, order, outbox, pauses, reads, requests, shares, sql_handlers, world

ALL = [*memory.MUTANTS, *damage.MUTANTS, *order.MUTANTS, *handlers.MUTANTS, *world.MUTANTS, *operations.MUTANTS, *outbox.MUTANTS, *migrating.MUTANTS, *reads.MUTANTS, *consumers.MUTANTS, *requests.MUTANTS,
       *sql_handlers.MUTANTS, *pauses.MUTANTS, *bridges.MUTANTS, *shares.MUTANTS]
