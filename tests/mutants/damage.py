"""R9 and what came to it: rows that cannot be stored, numbers that are used, texts that were cut."""

from mutants.mutant import edit, mutant

INBOX = "sql/test_store_inbox.c::"
SEQUENCES = "sql/test_store_sequences.c::"
RUNNING = "system/test_sequences.py::"

MUTANTS = [
    mutant("E1", "a number that is used is a bad value",
           edit("src/store/trouble.c", '{ "23505", TROUBLE_OTHER }', '{ "23505", TROUBLE_DATA }'),
           tests=[SEQUENCES + "a_number_that_is_used_rejects_nothing"]),
    mutant("E1", "a number that is used is tried again for ever",
           edit("src/store/inbox.c", "inbox->damaged || db_error_is_clash(inbox->db, err)", "inbox->damaged"),
           tests=[SEQUENCES + "a_number_that_is_used_rejects_nothing",
                  RUNNING + "test_a_sequence_that_falls_behind_while_it_runs_ends_it_and_rejects_nothing"]),
    mutant("E1", "numbers may fall",
           edit("src/store/inbox.c", "\tinbox->floor = inbox->batch_highest;", "\tinbox->floor = 0;"),
           tests=[SEQUENCES + "a_number_below_those_before_it_stores_nothing"]),
    mutant("E1", "a reject whose number is used is dropped",
           edit("sql/queries/insert_rejects.sql",
                "ON CONFLICT (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz)))",
                "ON CONFLICT"),
           tests=[SEQUENCES + "a_reject_whose_number_is_used_is_not_dropped"]),
    mutant("E1", "a conflict whose number is used is dropped",
           edit("sql/queries/insert_conflicts.sql",
                "ON CONFLICT (topic, kafka_partition, kafka_offset, (coalesce(kafka_timestamp, '-infinity'::timestamptz)))",
                "ON CONFLICT"),
           tests=[SEQUENCES + "a_conflict_whose_number_is_used_is_not_dropped"]),
    mutant("E1", "a clash in a table of the user ends inboxd",
           edit("src/store/db.c", ' &&\n\t       strncmp(err->table, "inbox_", strlen("inbox_")) == 0;', ";"),
           tests=[SEQUENCES + "what_a_trigger_of_the_user_finds_twice_is_no_damage"]),
    mutant("E1", "the sequences are not compared at the start",
           edit("src/registration.c", "\tif (r == 0)\n\t\tr = check_sequences(db, err);\n", "\t(void)check_sequences;\n"),
           tests=[RUNNING + "test_sequences_that_are_behind_are_set_at_the_start"]),
    mutant("E1", "the second look is left out",
           edit("sql/migrations/0010_sequences.sql", "b WHERE b.table_name = name;",
                "b RIGHT JOIN (SELECT 1) AS one ON b.table_name = name;"),
           edit("sql/migrations/0010_sequences.sql", "setval(sequence::regclass, highest)",
                "setval(pg_get_serial_sequence(name, 'seq')::regclass, coalesce(highest, 1))"),
           tests=[SEQUENCES + "no_sequence_is_set_back"]),
    mutant("E1", "who inserts meanwhile is not waited for",
           edit("sql/migrations/0010_sequences.sql", "SHARE ROW EXCLUSIVE", "ACCESS SHARE"),
           tests=[SEQUENCES + "setting_waits_for_who_inserts"]),
    mutant("E9", "a reason may end within a character",
           edit("src/model/batch.c", "\tutf8_repair(reject->reason);\n", ""),
           tests=[INBOX + "a_reason_cut_within_a_character_is_kept"]),
    mutant("E9", "what is added to a reason may end within a character",
           edit("src/store/inbox_others.c", "\tutf8_repair(reject->reason);\n", ""),
           tests=[INBOX + "a_reason_whose_addition_is_cut_within_a_character_is_kept"]),
    mutant("E9", "a try that failed leaves its rejects",
           edit("src/store/inbox.c", "\tbatch_drop_refused(batch);\n", ""),
           tests=[INBOX + "a_commit_that_failed_leaves_no_reject_in_the_batch"]),
]
