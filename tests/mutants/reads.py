"""Operators' reads: their rights, the cost of a page, the meaning of a range."""

from mutants.mutant import edit, mutant

COMMANDS = "system/test_commands.py::"
ROLES = "sql/test_roles.py::"
READS = "sql/test_reads.py::"
VERIFY = "system/test_verify.py::"
PAGES = "sql/functions/pages.sql"

MUTANTS = [
    mutant("E9", "a range before the log counts as complete",
           edit("src/ingest/verify.c", "\treturn v->request->to >= 0 ? v->to <= low : v->to < low;", "\treturn low < 0;"),
           tests=[VERIFY + "test_a_range_before_the_start_of_the_log_proves_nothing",
                  VERIFY + "test_records_deleted_before_a_sidecar_read_them_are_not_proven"]),
    mutant("E10", "the sidecar role cannot read",
           edit("sql/roles.sql", "GRANT SELECT ON inbox.messages, inbox.dead_groups, inbox.handlers, inbox.consumers TO inboxd_sidecar;\n", ""),
           tests=[ROLES + "test_the_sidecar_role_can_read_what_a_reader_can",
                  COMMANDS + "test_reading_commands_work_with_the_sidecars_own_user"]),
    mutant("E10", "a user without rights is asked for confirmation first",
           edit("src/ops/op.c", "\tif (r != 0 || rows_bool(rows, 0, 1))\n", "\tif (r != 0 || rows_count(rows) > 0)\n"),
           tests=[COMMANDS + "test_a_changing_command_as_the_sidecars_user_fails_with_the_grant"]),
    mutant("E11", "a read uses jit",
           edit("sql/functions/status.sql", "inbox.status() RETURNS jsonb\nLANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off",
                "inbox.status() RETURNS jsonb\nLANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off"),
           tests=[READS + "test_functions_that_disable_seqscan_also_disable_jit",
                  READS + "test_status_uses_no_jit_with_many_waiting_rows"]),
    mutant("E11", "the count of a backfill compares each message with each row of the consumer",
           edit("sql/functions/backfill.sql", "pg_temp SET enable_nestloop = off SET jit = off", "pg_temp SET jit = off"),
           tests=["sql/test_backfill.py::test_the_count_compares_no_two_lists_of_messages"]),
    mutant("E11", "dead messages are searched in the whole table",
           edit(PAGES, "WHEN 'dead' THEN '{1}' WHEN", "WHEN 'deaf' THEN '{1}' WHEN"),
           edit(PAGES, "            WHEN 'processed' THEN 'm.processed_at IS NOT NULL'\n",
                "            WHEN 'dead' THEN 'm.dead_at IS NOT NULL' WHEN 'processed' THEN 'm.processed_at IS NOT NULL'\n"),
           tests=[READS + "test_pages_read_do_not_grow_with_the_table[analyzed]",
                  READS + "test_a_page_uses_its_index_despite_wrong_statistics"]),
    mutant("E11", "a page reads until it is full",
           edit(PAGES, "THEN NULL ELSE 100000 END;", "THEN NULL ELSE 1000000000 END;"),
           tests=[READS + "test_a_page_ends_at_its_read_limit_and_the_next_continues_there",
                  COMMANDS + "test_a_list_reports_where_it_stopped_and_a_replay_searches_everything"]),
    mutant("E11", "a page by time of death begins again",
           edit(PAGES, "CASE WHEN died IS NOT NULL THEN format(", "CASE WHEN false THEN format("),
           tests=["sql/test_list_order.py::test_a_page_continues_behind_a_message_that_was_replayed_or_called_done"]),
    mutant("E11", "the time of a dead message is that of its receipt",
           edit("src/ops/filter.c", "bool died = cli->command != COMMAND_OUTBOX && op_is_dead(cli, status);", "bool died = false;"),
           tests=["system/test_operator_reads.py::test_since_is_about_the_death_of_dead_messages"]),
    mutant("E11", "a time is searched from the first row",
           edit(PAGES, "    IF filter ? 'received_from' AND misfits > 0 THEN\n", "    IF false THEN\n"),
           tests=[READS + "test_a_time_is_found_in_a_large_table"]),
    mutant("E11", "a count ends with its first page",
           edit("src/ops/replay.c", "\tcounter->over = rows_is_null(rows, 0, 1);\n", "\tcounter->over = true;\n"),
           tests=[COMMANDS + "test_a_list_reports_where_it_stopped_and_a_replay_searches_everything"]),
    mutant("E11", "the end of a page is the end of all",
           edit("sql/functions/replay.sql", "PERFORM inbox.warn_of_rest('replay_where', page.looked, page.last_seq);", "NULL;"),
           tests=[READS + "test_a_replay_reports_its_last_position_and_continues_after_it"]),
    mutant("E11", "claimed messages are not found through the bounds",
           edit(PAGES, "i.rescued_at IS NULL;\n        born := coalesce(born,", "i.rescued_at IS NULL;\n        born := coalesce(born + 1,"),
           tests=[READS + "test_claimed_messages_are_found_through_the_bounds_of_instances"]),
    mutant("E11", "a function loses its grants",
           edit("sql/after_functions.sql", "a WHERE a.grantee <> heritage.proowner LOOP\n", "a WHERE false LOOP\n"),
           tests=[ROLES + "test_grants_are_kept_when_a_function_gains_a_parameter"]),
]
