"""Each rule of docs/rules.md taken out of the sources; run.py expects a test to notice."""

from mutants import handlers, memory, operations, order, reads, world

ALL = [*memory.MUTANTS, *order.MUTANTS, *handlers.MUTANTS, *world.MUTANTS, *operations.MUTANTS, *reads.MUTANTS]
