"""R14 to R16: one bad message or handler disturbs nobody."""

from mutants.mutant import edit, mutant

JUDGE = "unit/test_judge.c::"
GATE = "unit/test_gate.c::"
HANDLERS = "system/test_handlers.py::"
CLAIMS = "sql/test_store_claims.c::"
INSTANCE = "sql/test_store_instance.c::"
ABSENCE = "system/test_absence.py::"

MUTANTS = [
    # R14
    mutant("R14", "what was open on a lost connection is no suspect",
           edit("src/dispatch/judge.c", "\tstart(entry, SETTLE_WAITING, END_CRASH);\n\tentry->verdict.suspect = true;",
                "\tstart(entry, SETTLE_WAITING, END_CRASH);\n\tentry->verdict.suspect = false;"),
           tests=[JUDGE + "the_first_lost_connection_makes_a_suspect_and_counts_nothing"]),
    mutant("R14", "a suspect is delivered beside others",
           edit("src/dispatch/suspects.c", "if (entry == NULL || session->open_count > 0 || entry->state != ENTRY_RESERVED ||",
                "if (entry == NULL || entry->state != ENTRY_RESERVED ||"),
           edit("src/dispatch/pump.c", "!session->closing && session->alone == NULL &&", "!session->closing &&"),
           edit("src/dispatch/suspects.c", "!session->closing && session->alone == NULL &&", "!session->closing &&"),
           tests=[HANDLERS + "test_suspects_of_a_crash_come_back_alone"]),
    mutant("R14", "crashes are not counted before the delivery",
           edit("src/dispatch/suspects.c", "\tif (entry->raised)\n\t\tdeliver", "\tif (entry != NULL)\n\t\tdeliver"),
           tests=[HANDLERS + "test_a_message_that_keeps_killing_its_handler_dies_of_it"]),
    mutant("R14", "an answer does not take the count back",
           edit("src/dispatch/judge.c", "\t\t.crash_count = message->crash_count,",
                "\t\t.crash_count = message->crash_count + (entry->raised ? 1 : 0),"),
           tests=[JUDGE + "any_answer_takes_the_raised_crash_count_back"]),
    mutant("R14", "crashes never end",
           edit("src/dispatch/judge.c", "if (entry->verdict.crash_count >= rules->max_crashes)",
                "if (entry->verdict.crash_count >= 1000 * rules->max_crashes)"),
           tests=[JUDGE + "a_suspect_that_ends_its_handler_again_counts_until_it_is_dead"]),
    mutant("R14", "what a dead sidecar held twice is no suspect",
           edit("sql/queries/rescue_born.sql", "suspect = m.suspect OR m.rescue_count > 0", "suspect = m.suspect"),
           tests=["sql/test_store_instance.c::what_the_dead_held_waits_again_and_the_second_time_as_suspect"]),
    mutant("R14", "giving back is a crash",
           edit("src/dispatch/judge.c", "\tstart(entry, SETTLE_WAITING, END_RETURNED);\n\tentry->verdict.suspect = entry->message->suspect;",
                "\tstart(entry, SETTLE_WAITING, END_RETURNED);\n\tentry->verdict.suspect = true;"),
           tests=[JUDGE + "giving_back_makes_no_suspect"]),
    mutant("R14", "the count of a completed suspect is raised for ever",
           edit("src/dispatch/settler.c", "} else if (fate == SETTLE_LOST || fate == SETTLE_COMPLETED) {",
                "} else if (fate == SETTLE_LOST) {"),
           tests=["system/test_rules.py::test_a_suspect_that_is_completed_meanwhile_blocks_nobody"]),
    mutant("R14", "a snooze may come back at once, for ever",
           edit("src/dispatch/judge.c", "delay_ms > SNOOZE_LEAST_MS ? delay_ms : SNOOZE_LEAST_MS", "delay_ms"),
           tests=["unit/test_judge.c::a_snooze_waits_a_tenth_of_a_second_at_least"]),
    # R15
    mutant("R15", "what nobody wants is born claimed",
           edit("src/model/gate.c", "if (gate->routing == NULL || !routing_wants(gate->routing, message->topic, message->type)) {",
                "if (gate->routing == NULL) {"),
           tests=[GATE + "what_nobody_wants_is_parked_and_takes_no_budget"]),
    mutant("R15", "what nobody wants does not hold its key",
           edit("src/model/gate.c", "if (ordered && lane_set_add(", "if (ordered && !gate && lane_set_add("),
           tests=[GATE + "behind_a_parked_one_of_the_same_batch_its_key_is_parked_too"]),
    mutant("R15", "what nobody wants is claimed",
           edit("sql/queries/claim_due.sql", "j.available_at, j.wanted AND (", "j.available_at, ("),
           tests=["sql/test_store_rules.c::a_row_without_a_key_that_nobody_wants_is_parked"]),
    mutant("R15", "a subscription releases nothing",
           edit("src/dispatch/worker.c", "\tr = claims_release(db, &job->request, job->partitions, &job->released, &job->err);\n", ""),
           tests=["system/test_routing.py::test_thousands_of_parked_messages_are_released"]),
    mutant("R15", "what nobody wants is not counted",
           edit("sql/queries/count_unrouted.sql", "      WHERE NOT EXISTS (", "      WHERE EXISTS ("),
           tests=[CLAIMS + "gauges_count_what_waits_what_is_dead_and_what_nobody_wants"]),
    # R16
    mutant("R16", "nobody leaves for want of a handler",
           edit("src/ingest/membership.c", "return atomic_load(&health->away) ?", "return atomic_load(&health->away) && heartbeat_ms < 0 ?"),
           tests=[ABSENCE + "test_r16_who_lacks_a_handler_that_another_member_has_leaves_it_the_partitions"]),
    mutant("R16", "who is away counts as a member that has handlers",
           edit("sql/queries/judge_absence.sql", "o.fenced_at IS NULL AND o.away_at IS NULL", "o.fenced_at IS NULL"),
           tests=[INSTANCE + "two_never_leave_for_each_other"]),
    mutant("R16", "a member that is gone counts",
           edit("sql/queries/judge_absence.sql", "AND o.heartbeat_at > clock_timestamp() - $2::bigint", "AND o.heartbeat_at > clock_timestamp() - 1000 * $2::bigint"),
           tests=[INSTANCE + "whose_handler_is_back_or_whose_model_is_gone_is_back"]),
    mutant("R16", "it leaves at once",
           edit("sql/queries/judge_absence.sql", "WHEN i.lacking_since <= clock_timestamp() - $3::bigint", "WHEN coalesce(i.lacking_since, clock_timestamp()) <= clock_timestamp() + $3::bigint"),
           tests=[INSTANCE + "who_lacks_a_handler_that_another_has_is_away_after_a_while"]),
    mutant("R16", "never is a time like others",
           edit("src/janitor/keeper.c", "if (config->inbox.handler_absence == CONFIG_NEVER)", "if (config->inbox.handler_absence < 0)"),
           edit("src/janitor/keeper.c", ".absence_ms = config->inbox.handler_absence,", ".absence_ms = config->inbox.handler_absence / 9000000000000000,"),
           tests=[ABSENCE + "test_r16_never_means_that_nobody_leaves"]),
]
