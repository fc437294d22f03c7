"""R30: commands and services as handlers, by `inboxd exec` and `inboxd forward`."""

from mutants.mutant import edit, mutant

MUTANTS = [
    mutant("R30", "a deadline is compared with the clock of the host",
           edit("src/bridge/intake.c", "left_ms = inbox_delivery_left_ms(delivery);", "left_ms = inbox_delivery_deadline_ms(delivery) - clock_wall_ms();"),
           tests=["faults/test_instances.py::test_exec_does_not_compare_its_clock_with_a_deadline"]),
    mutant("R30", "an extension does not move the deadline",
           edit("src/client/session.c", "\tdelivery->due_ms = ih_due_ms(timeout_ms);\n", ""),
           tests=["unit/test_handler_library.c::the_time_that_is_left_comes_from_the_timeout_and_not_from_a_clock"]),
]
