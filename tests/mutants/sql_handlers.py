"""R28: SQL handlers, which inboxd calls in the transaction that marks their messages processed."""

from mutants.mutant import edit, mutant

SQL = "sql/test_sql_handlers.py::"
SYSTEM = "system/test_sql_handlers.py::"
FUNCTION = "sql/functions/sql_handlers.sql"
CALLS = "src/store/claims/sql_calls.c"
SESSIONS = "src/dispatch/sessions/sql_sessions.c"

MUTANTS = [
    mutant("R28", "a lock that another session holds spends an attempt",
           edit(FUNCTION, "error_code IN ('55P03', '55006') OR", "error_code = '55006' OR"),
           tests=[SQL + "test_an_error_is_a_verdict_and_leaves_no_effect"]),
    mutant("R28", "a call is not fenced by its claim",
           edit(FUNCTION, "        WHERE m.seq = claim_seq AND m.claimed_by = own_id AND m.delivery_count = claim_count\n          AND", "        WHERE m.seq = claim_seq\n          AND"),
           tests=[SQL + "test_a_claim_that_is_lost_during_the_call_leaves_no_effect"]),
    mutant("R28", "a message behind a failed one is called",
           edit(FUNCTION, "OR (behind IS NOT NULL AND NOT EXISTS", "OR (false AND NOT EXISTS"),
           tests=[SQL + "test_the_messages_behind_a_failing_one_are_not_tried", SYSTEM + "test_a_failing_message_blocks_its_key_only"]),
    mutant("R28", "the function runs with the rights of the sidecar",
           edit(FUNCTION, "set_config('role', coalesce(as_role, own_role), true)", "set_config('role', own_role, true)"),
           tests=[SQL + "test_the_function_runs_with_the_rights_of_its_role", SYSTEM + "test_the_function_runs_as_its_role"]),
    mutant("R28", "a timeout ends the whole transaction",
           edit(FUNCTION, "WHEN OTHERS OR query_canceled OR assert_failure THEN", "WHEN OTHERS THEN"),
           tests=[SQL + "test_a_statement_timeout_is_a_verdict"]),
    mutant("R28", "the role that a function leaves behind stays",
           edit(FUNCTION, "pg_catalog.set_config('role', own_role, false)", "pg_catalog.set_config('role', own_role, true)"),
           tests=[SQL + "test_a_role_that_the_function_leaves_behind_is_set_back"]),
    mutant("R28", "a transaction goes on for as long as its calls last",
           edit(FUNCTION, "IF clock_timestamp() > now() + limit_ms * interval '1 millisecond'\n       OR", "IF false OR"),
           tests=[SQL + "test_no_call_begins_when_the_transaction_is_too_old"]),
    mutant("R28", "what failed at the COMMIT is not tried one by one",
           edit(CALLS, "\tif (!is_rolled_back(r, err))\n\t\treturn r;\n\tr = 0;", "\treturn r;\n\tr = 0;"),
           tests=[SYSTEM + "test_a_deferred_constraint_fails_at_commit_for_its_message_only"]),
    mutant("R28", "settings of a function stay in the session",
           edit("src/store/pg/db.c", "\tif (r == 0 && db->user_functions)\n", "\tif (r != 0 && db->user_functions)\n"),
           tests=[SYSTEM + "test_settings_of_a_function_do_not_reach_the_next_transaction"]),
    mutant("R28", "a function that is gone spends attempts",
           edit(CALLS, "\t\tif (r == 0 && first == 0)\n\t\t\tr = refusal_of(problem, batch->handler, err);\n", ""),
           tests=[SYSTEM + "test_a_function_that_is_dropped_while_it_runs_spends_no_attempt"]),
    mutant("R28", "messages of a lost transaction are no suspects",
           edit(SESSIONS, "if (entry != NULL && (job->result != SQL_CALLS_LOST || rows[i].status != CALL_OPEN))", "if (entry != NULL)"),
           tests=[SYSTEM + "test_a_message_that_ends_its_backend_each_time_is_dead"]),
    mutant("R28", "a crash of another backend makes suspects",
           edit(CALLS, 'if (strcmp(err->state, "57P02") == 0)', "if (ignored.fault != 0)"),
           tests=[SYSTEM + "test_a_crash_makes_only_the_messages_of_its_own_session_suspects"]),
    mutant("R28", "a shutdown makes suspects",
           edit(CALLS, 'strcmp(err->state, "57P01") == 0 && db_open', 'strcmp(err->state, "57P01") != 0 && db_open'),
           tests=[SYSTEM + "test_a_server_that_stops_makes_no_suspects"]),
    mutant("R28", "a function that completes its message is not told so",
           edit(FUNCTION, "completed := EXISTS", "completed := false AND EXISTS"),
           tests=[SQL + "test_a_function_that_completes_its_own_message_is_told_what_to_do"]),
    mutant("R28", "a handler on the socket takes the name of a SQL handler",
           edit("src/dispatch/sessions/hello.c", "if (is_sql_handler(session, &hello)) {", "if (false && is_sql_handler(session, &hello)) {"),
           tests=[SYSTEM + "test_the_name_of_a_sql_handler_is_taken"]),
]
