"""R17 to R20: the world changes."""

from mutants.mutant import edit, mutant

POSITION = "unit/test_position.c::"
START = "system/test_start_position.py::"

MUTANTS = [
    # R17
    mutant("R17", "the last record is not looked at",
           edit("src/ingest/position.c", "facts->last_timestamp < 0)\n\t\treturn;", "facts->last_timestamp < 0 || out)\n\t\treturn;"),
           tests=[POSITION + "both_agree_so_reading_starts_at_the_last_record_to_verify_it"]),
    mutant("R17", "another record at the last offset is not noticed",
           edit("src/ingest/collect.c", "same = timestamp_of(record) == partition->verify_timestamp;", "same = true;"),
           tests=[START + "test_a_longer_topic_created_again_is_recognised_too"]),
    mutant("R17", "a watermark behind the end is believed",
           edit("src/ingest/position.c", "if (facts->recreated || known > facts->high) {", "if (facts->recreated) {"),
           tests=[POSITION + "a_watermark_behind_the_end_is_another_log_read_from_its_start"]),
    mutant("R17", "a gap is not said",
           edit("src/ingest/position.c", "\tif (known < facts->low) {", "\tif (known < 0) {"),
           tests=[POSITION + "a_watermark_before_the_log_is_a_gap"]),
    mutant("R17", "the last record stored is not written down",
           edit("sql/queries/move_watermarks.sql", "last_offset = w.last_offset, last_timestamp = w.last_timestamp,",
                "last_offset = NULL, last_timestamp = least(w.last_timestamp, NULL), forced = w.last_offset < 0 AND"),
           tests=[START + "test_a_longer_topic_created_again_is_recognised_too"]),
    mutant("R17", "a seek is not noticed while running",
           edit("sql/migrations/0011_seek_reason.sql", " epoch = o.epoch + 1, forced = true,", ""),
           tests=["system/test_seek.py::test_back_it_reads_again_and_nothing_is_stored_or_handled_twice"]),
    mutant("R17", "what a seek skips is not said",
           edit("src/seek.c", "seek->skipped = seek->to > next ? seek->to - next : 0;", "seek->skipped = 0;"),
           tests=["system/test_seek.py::test_forth_it_skips_for_good_and_says_so_loudly"]),
    mutant("R17", "a seek may leave the log",
           edit("src/seek.c", "if (seek->to >= log->begin && seek->to <= log->end)", "if (seek->to >= 0)"),
           tests=["system/test_seek.py::test_what_cannot_be_moved_is_told_in_one_line"]),
    mutant("R17", "a seek goes to the second record of a time",
           edit("src/seek.c", "seek->to = log->at;", "seek->to = log->at + (log->at < log->end);"),
           tests=["system/test_seek.py::test_a_time_is_the_first_record_from_then_on"]),
    # R18
    mutant("R18", "any group may use the schema",
           edit("src/store/watermarks.c", "strcmp(their_cluster, cluster_id) == 0 && strcmp(their_group, group_id) == 0",
                "strcmp(their_cluster, cluster_id) == 0"),
           tests=["sql/test_store_inbox.c::a_schema_belongs_to_one_cluster_and_group",
                  "system/test_config.py::test_another_group_may_not_use_the_schema"]),
    # R19
    mutant("R19", "a setting stays in the session",
           edit("src/store/db.c", "set_config('lock_timeout', '%\" PRId64 \"', true)",
                "set_config('lock_timeout', '%\" PRId64 \"', false)"),
           tests=["faults/test_failover.py::test_a_session_of_the_pooler_is_left_as_it_was"]),
    mutant("R19", "every update is a replay",
           edit("sql/migrations/0002_operators.sql", "      AND (OLD.processed_at IS NOT NULL OR OLD.dead_at IS NOT NULL))\n", ")\n"),
           tests=["sql/test_functions.py::test_other_updates_replay_nothing"]),
    mutant("R19", "the replay trigger locks what completes",
           edit("sql/migrations/0002_operators.sql", "AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages\nFOR EACH ROW\n"
                "WHEN (NEW.processed_at IS NULL AND NEW.dead_at IS NULL AND NEW.available_at IS NULL\n"
                "      AND (OLD.processed_at IS NOT NULL OR OLD.dead_at IS NOT NULL))\n",
                "AFTER UPDATE OF processed_at, dead_at ON inbox.inbox_messages\nFOR EACH ROW\n"),
           tests=["sql/test_plans.py::test_completing_is_a_hot_update_and_touches_no_index",
                  "sql/test_functions.py::test_other_updates_replay_nothing"]),
    # R20
    mutant("R20", "after a resume nothing is sought",
           edit("src/ingest/consumer.c", "\terror = rd_kafka_seek_partitions(consumer->kafka, list, SEEK_MS);", "\terror = NULL;"),
           tests=[START + "test_offsets_set_forward_by_hand_lose_nothing"]),
    mutant("R20", "a library call that hangs is waited for",
           edit("src/watchdog.c", "clock_now_ms() + watchdog->timeout_ms;", "clock_now_ms() + watchdog->timeout_ms * 100;"),
           tests=["faults/test_endings.py::test_a_stop_ends_in_time_although_a_call_hangs"]),
    mutant("R20", "what inboxd decides may be configured",
           edit("src/config/passed.c", '"kafka", "enable.auto.commit", offsets', '"kafka", "enable.auto.commit.x", offsets'),
           edit("src/ingest/consumer_conf.c", "\t\tif (strcmp(refused[i], name) == 0)", "\t\tif (refused[i] == name)"),
           tests=["system/test_config.py::test_what_inboxd_decides_itself_is_refused"]),
]
