"""Operators' reads: who may look, what one page costs, what a range proves."""

from mutants.mutant import edit, mutant

COMMANDS = "system/test_commands.py::"
ROLES = "sql/test_roles.py::"
VERIFY = "system/test_verify.py::"

MUTANTS = [
    mutant("E9", "a range before the log is whole",
           edit("src/ingest/verify.c", "\treturn v->request->to >= 0 ? v->to <= low : v->to < low;", "\treturn low < 0;"),
           tests=[VERIFY + "test_before_the_beginning_of_the_log_nothing_is_proven",
                  VERIFY + "test_records_deleted_before_a_sidecar_read_them_are_not_proven"]),
    mutant("E10", "a sidecar may not look",
           edit("sql/roles.sql", "GRANT SELECT ON inbox.messages, inbox.dead_groups TO inboxd_sidecar;\n", ""),
           tests=[ROLES + "test_a_sidecars_user_looks_as_a_reader_does",
                  COMMANDS + "test_in_a_sidecars_container_its_own_user_looks"]),
    mutant("E10", "who may not is asked first",
           edit("src/admin/operate.c", "\tif (r != 0 || rows_bool(rows, 0, 1))\n", "\tif (r != 0 || rows_count(rows) > 0)\n"),
           tests=[COMMANDS + "test_a_sidecars_user_is_told_the_grant_before_anything_is_asked"]),
]
