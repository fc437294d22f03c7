"""R31: what handlers share."""

from mutants.mutant import edit, mutant

SHARES = "system/test_shares.py::"
QUEUES = "unit/test_handler_queues.c::"
LEASED = "system/test_leased_requests.py::"
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
    mutant("R31", "a handler without a share and without messages is closed",
           edit("src/dispatch/groups/handler_groups.c", "queue->held[m] > 0 && queue->held[m] >= limit", "queue->held[m] >= limit"),
           tests=[GROUPS + "a_handler_that_is_gone_and_holds_nothing_is_not_closed_and_opened_in_turns"]),
    mutant("R31", "any handler that exceeds comes first",
           edit("src/dispatch/groups/handler_groups.c", "held > largest->queue.held[measure]", "held < largest->queue.held[measure]"),
           tests=[GROUPS + "the_largest_handler_that_exceeds_comes_first"]),
    mutant("R31", "nothing in flight is kept for others",
           edit(OF_QUEUES, "queues->kept[m] += queue->kept[m];", "queues->kept[m] += 0 * queue->kept[m];"),
           tests=[QUEUES + "a_handler_leaves_their_shares_to_all_others"]),
    mutant("R31", "the first handler always comes first",
           edit("src/dispatch/schedule/scheduler.c", "schedule->turn = i + 1;", "schedule->turn = 0 * i;"),
           tests=[SHARES + "test_handlers_take_turns_when_there_are_fewer_deliveries_than_handlers"]),
    mutant("R31", "bytes in flight are not limited",
           edit(OF_QUEUES, "(queue->in_flight[MESSAGES] == 0 ||", "(queue->in_flight[MESSAGES] < SIZE_MAX ||"),
           tests=[QUEUES + "large_deliveries_leave_bytes_to_the_others"]),
    mutant("R31", "a client that only pokes keeps its place",
           edit("src/dispatch/sessions/listener.c", "(allowed && end_silent(sessions))", "(!allowed && end_silent(sessions))"),
           tests=[SHARES + "test_a_handler_can_connect_while_clients_that_only_poke_have_all_places"]),
    mutant("R31", "a handler may have all connections",
           edit("src/dispatch/sessions/hello.c", "sessions->count <= few ||", "sessions->count > 0 ||"),
           tests=[SHARES + "test_a_handler_with_too_many_connections_leaves_places_to_others"]),
    mutant("R31", "the smallest unfinished line ends",
           edit("src/dispatch/sessions/listener.c", "if (all > most ||", "if ((all > 0 && (most == 0 || all < most)) ||"),
           tests=["system/test_protocol_conformance.py::test_too_many_unfinished_lines_are_an_internal_error_and_not_a_line_over_the_limit"]),
    mutant("R31", "the first client has all turns",
           edit("src/dispatch/sessions/leased_queue.c",
                "\t\t\tTAILQ_INSERT_TAIL(&leased->turns, session, leased_link);\n\t\t\treturn",
                "\t\t\tTAILQ_INSERT_HEAD(&leased->turns, session, leased_link);\n\t\t\treturn"),
           tests=[LEASED + "test_connections_take_turns"]),
    mutant("R31", "one client may fill the memory for requests",
           edit("src/dispatch/sessions/leased_requests.c", "if (leased->clients < 2 || own == 0)", "if (leased->clients < 2 || own < SIZE_MAX)"),
           tests=[LEASED + "test_large_requests_leave_room_to_other_connections"]),
    mutant("R31", "the handler that was seen last is known",
           edit("sql/queries/dispatch/known_handlers.sql", "k.last_seen_at - k.known_since DESC", "k.last_seen_at DESC"),
           tests=["sql/test_handlers_known.py::test_many_names_displace_no_handler_that_was_known_for_longer"]),
    mutant("R31", "any number of handlers is recorded",
           edit("sql/queries/dispatch/keep_handlers.sql", "OFFSET 1000", "OFFSET 1000000"),
           tests=["sql/test_handlers_known.py::test_beyond_a_thousand_the_handlers_that_were_known_for_the_shortest_time_are_deleted"]),
    mutant("R31", "the place of a removed series stays taken",
           edit("src/report/metrics.c", "\tif (found) {\n\t\tfree(home->series[at]);", "\tif (found)\n\t\thome->series[at]->shown = false;\n\tif (found && home->count > METRICS_MAX_SERIES) {\n\t\tfree(home->series[at]);"),
           tests=["unit/test_metrics.c::a_removed_series_leaves_its_place"]),
]
