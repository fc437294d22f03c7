"""R31: what handlers share."""

from mutants.mutant import edit, mutant

SHARES = "system/test_shares.py::"
QUEUES = "unit/test_handler_queues.c::"
GROUPS = "unit/test_handler_groups.c::"
OF_QUEUES = "src/dispatch/order/handler_queues.c"

MUTANTS = [
    mutant("R31", "a handler may hold nine tenths, whatever the others hold",
           edit(OF_QUEUES, "less(most, spare_of(most) + others)", "less(most, spare_of(most) + 0 * others)"),
           tests=[SHARES + "test_the_last_handler_gets_everything_while_all_others_hang"]),
    mutant("R31", "no part of memory stays free",
           edit(OF_QUEUES, "less(most, spare_of(most) + others)", "less(most, others)"),
           tests=[QUEUES + "a_handler_may_hold_what_the_others_leave_and_a_tenth_stays_free"]),
    mutant("R31", "a handler that nobody waits for is closed",
           edit("src/dispatch/groups/handler_groups.c", "update_share(groups, queue->group, memory_needed);",
                "update_share(groups, queue->group, memory_needed || queue != NULL);"),
           tests=[GROUPS + "a_handler_stays_open_while_no_other_needs_memory"]),
    mutant("R31", "any handler that exceeds comes first",
           edit("src/dispatch/groups/handler_groups.c", "held > largest->queue.held[measure]", "held < largest->queue.held[measure]"),
           tests=[GROUPS + "the_largest_handler_that_exceeds_comes_first"]),
    mutant("R31", "nothing in flight is kept for others",
           edit(OF_QUEUES, "queues->kept[m] += queue->kept[m];", "queues->kept[m] += 0 * queue->kept[m];"),
           tests=[QUEUES + "a_handler_leaves_their_shares_to_all_others"]),
    mutant("R31", "bytes in flight are not limited",
           edit(OF_QUEUES, "(queue->in_flight[MESSAGES] == 0 ||", "(queue->in_flight[MESSAGES] < SIZE_MAX ||"),
           tests=[QUEUES + "large_deliveries_leave_bytes_to_the_others"]),
]
