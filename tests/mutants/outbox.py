"""O1 to O8: the outbox."""

from mutants.mutant import edit, mutant

RELAY = "src/ingest/relay/relay.c"
FLIGHT = "src/ingest/relay/flight.c"
OUTBOX = "system/test_outbox.py::"
FAULTS = "faults/test_outbox.py::"
HOLES = "unit/test_holes.c::"
SQL = "sql/test_relay.py::"

MUTANTS = [
    mutant("O1", "a missing number is no hole",
           edit(RELAY, "\t\tif (holes_add(&relay->holes, before + 1, seq - 1) < 0)\n\t\t\treturn err_memory(err);\n", "\t\t(void)err;\n"),
           tests=[OUTBOX + "test_a_late_commit_with_a_lower_seq_is_published_and_delays_nobody"]),
    mutant("O1", "a hole is given up as soon as its bound is known",
           edit("src/model/outbox/holes.c", "hole->bound > xmin)", "false)"),
           tests=[HOLES + "a_hole_is_given_up_when_its_bound_is_reached",
                  OUTBOX + "test_a_transaction_id_above_the_completed_ones_does_not_end_a_hole"]),
    mutant("O1", "the bound is the xmin of the flight",
           edit("sql/queries/relay/relay_hold.sql", "SELECT pg_current_xact_id()::text::bigint",
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"),
           tests=[OUTBOX + "test_a_transaction_id_above_the_completed_ones_does_not_end_a_hole"]),
    mutant("O1", "the stored floor passes a hole",
           edit(RELAY, "\tint64_t lowest = holes_lowest(&relay->holes, relay->tip + 1) - 1;", "\tint64_t lowest = relay->tip;"),
           edit(RELAY, "\trelay->sweep_after = INT64_MIN;", "\trelay->sweep_after = SWEPT;"),
           tests=[OUTBOX + "test_a_late_commit_is_found_by_a_leader_that_comes_after_a_renewal"]),
    mutant("O2", "a sequence that was set back is not noticed",
           edit(RELAY, "\tif (election.last_number >= relay->tip)\n\t\treturn 0;", "\treturn 0;"),
           tests=[OUTBOX + "test_a_sequence_that_was_set_back_hides_no_event"]),
    mutant("O3", "late events are read before new ones",
           edit(RELAY, "\tr = relay_read(relay->periodic.db, &page, &rows, err);\n\tif (r != 0)\n\t\treturn r;\n\tFAULT_POINT(\"outbox_read\");\n",
                ""),
           edit(RELAY, "\t} while (r == RELAY_CUT);\n", "\t} while (r == RELAY_CUT);\n\tFAULT_POINT(\"outbox_read\");\n"
                "\tif (r == 0)\n\t\tr = relay_read(relay->periodic.db, &page, &rows, err);\n"),
           tests=[FAULTS + "test_no_event_overtakes_a_late_one_of_its_key_between_two_reads"]),
    mutant("O4", "a relay that is not elected records its flight",
           edit("sql/queries/relay/relay_delete.sql", " AND EXISTS (SELECT FROM inbox.outbox_relay r WHERE r.instance = $2::int)",
                " AND $2::int IS NOT NULL"),
           tests=[SQL + "test_an_instance_that_lost_the_election_records_nothing"]),
    mutant("O4", "a new leader does not begin with what is parked",
           edit(RELAY, "\trelay->pass_is_first = true;", "\trelay->pass_is_first = false;\n\trelay->passing = false;"),
           tests=[OUTBOX + "test_a_new_leader_releases_what_the_one_before_has_parked"]),
    mutant("O5", "the producer goes on behind a refused request",
           edit("src/ingest/kafka/consumer_conf.c", "\t\t{ \"enable.gapless.guarantee\", \"true\" }, { NULL, NULL } },",
                "\t\t{ NULL, NULL } },"),
           tests=[OUTBOX + "test_a_limit_that_was_lowered_unseen_keeps_the_order"]),
    mutant("O5", "a key does not wait behind its refused event",
           edit(FLIGHT, "\t\tif (event->keyed && holds_set(holds, event->key_hash, event->seq, false) < 0)", "\t\tif (holds == NULL)"),
           tests=[OUTBOX + "test_a_too_large_event_stops_only_its_key_until_the_limit_is_raised"]),
    mutant("O5", "a hold ends with its head",
           edit("src/model/outbox/holds.c", "\tslot->state = HOLD_FREE;\n\tholds->free++;", "\tslot->state = HOLD_PASSES;"),
           tests=["unit/test_holds.c::a_key_is_held_until_its_head_is_gone_and_a_pass_has_ended"]),
    mutant("O5", "what is sent together may exceed the limit of the topic",
           edit(FLIGHT, "\t\ttopic->group_bytes + size > topic->limit)", "\t\ttopic->group_bytes < 0)"),
           tests=[OUTBOX + "test_small_events_together_may_exceed_the_limit_of_their_topic"]),
    mutant("O5", "a missing topic counts attempts",
           edit(FLIGHT, "\t\treturn hold_topic(flight, event, event->topic->why, err);",
                "\t\treturn refuse(flight, event, \"TOPIC\", event->topic->why, err);"),
           tests=[OUTBOX + "test_a_missing_topic_stops_only_its_events"]),
    mutant("O5", "a discarded head holds its key for ever",
           edit(RELAY, "\t\tif (left == rows_count(rows))\n\t\t\tholds_release(&relay->holds, hashes[i], seqs[i]);",
                "\t\t(void)hashes;"),
           tests=[OUTBOX + "test_the_key_goes_on_when_an_operator_discards_its_head"]),
    mutant("O6", "a poke wakes nobody",
           edit("src/dispatch/sessions/requests.c", "\tif (outbox != NULL)\n\t\twake_poke(outbox);", "\t(void)outbox;"),
           tests=[OUTBOX + "test_a_poke_wakes_the_relay_without_a_hello"]),
]
