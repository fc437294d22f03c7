"""R29: pauses."""

from mutants.mutant import edit, mutant

PAUSE = "system/test_pause.py::"

MUTANTS = [
    mutant("R29", "new rows of a paused stream are born claimed",
           edit("src/model/admission/admission.c", "\tif (entry->paused) {\n", "\tif (false) {\n"),
           edit("src/dispatch/order/entries.c", "if (context_is_stopping(order->context) || !where.assigned || where.paused)\n\t\tentry_return(order, entry);\n\telse if (arrival",
                "if (context_is_stopping(order->context) || !where.assigned)\n\t\tentry_return(order, entry);\n\telse if (arrival"),
           tests=[PAUSE + "test_messages_wait_in_their_order_and_spend_no_attempt"]),
    mutant("R29", "rows of a paused stream are claimed",
           edit("src/dispatch/table/jobs.c", "if (stream->paused)", "if (false)"),
           edit("src/dispatch/order/entries.c", "if (context_is_stopping(order->context) || !where.assigned || where.paused)\n\t\tentry_return(order, entry);\n\telse if (arrival",
                "if (context_is_stopping(order->context) || !where.assigned)\n\t\tentry_return(order, entry);\n\telse if (arrival"),
           tests=[PAUSE + "test_a_retry_that_comes_due_during_a_pause_waits"]),
    mutant("R29", "what is claimed is delivered during a pause",
           edit("src/dispatch/pausing.c", "\tentries_return_undelivered(&dispatch->order, false);\n", ""),
           tests=[PAUSE + "test_what_is_in_flight_finishes_and_what_is_claimed_goes_back"]),
    mutant("R29", "a paused handler gets messages",
           edit("src/dispatch/groups/handler_groups.c", "\tgroup->queue.paused = paused;\n", ""),
           tests=[PAUSE + "test_messages_wait_in_their_order_and_spend_no_attempt"]),
    mutant("R29", "the pauses in the table are not read",
           edit("src/store/claims/known_handlers.c", "kind < PAUSE_KINDS &&", "kind > PAUSE_KINDS &&"),
           tests=[PAUSE + "test_a_pause_outlasts_restarts_and_is_obeyed_by_all_sidecars"]),
    mutant("R29", "the topic is read nevertheless",
           edit("src/ingest/partitions/flow.c", "\tingest->topics_stopped = admission_stops_reading(admission);", "\tingest->topics_stopped = false;"),
           tests=[PAUSE + "test_with_ingest_the_topic_is_not_read"]),
    mutant("R29", "topics are read before the pauses are known",
           edit("src/ingest/partitions/flow.c", "\tif (!knows_pauses(ingest, now_ms))\n", "\tif (!knows_pauses(ingest, now_ms) && ingest->stops != 0)\n"),
           tests=[PAUSE + "test_with_ingest_nothing_is_read_before_the_pauses_are_known"]),
    mutant("R29", "the pauses are dropped when the exchange of handlers fails",
           edit("src/dispatch/arrivals.c", "if (job->handlers.known.pauses_read)", "if (job->result == 0)"),
           tests=[PAUSE + "test_a_pause_takes_effect_while_somebody_locks_the_handlers"]),
    mutant("R29", "a resume without memory is forgotten",
           edit("src/dispatch/groups/handler_groups.c", "\tif (pause_groups(groups))\n", "\tif (false)\n"),
           tests=["unit/test_handler_groups.c::a_handler_is_resumed_by_the_next_tick_if_memory_was_lacking"]),
]
