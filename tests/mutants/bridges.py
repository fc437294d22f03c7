"""R30: commands and services as handlers, by `inboxd exec` and `inboxd forward`."""

from mutants.mutant import edit, mutant

MUTANTS = [
    mutant("R30", "exec waits for the start of each command",
           edit("src/bridge/exec/process.c", "\t(void)setpgid(process->pid, process->pid);\n",
                "\t(void)setpgid(process->pid, process->pid);\n\t(void)poll(&(struct pollfd){ .fd = process->report, .events = POLLIN }, 1, 10000);\n"),
           tests=["faults/test_stalls.py::test_a_command_that_does_not_start_delays_no_other"]),
    mutant("R30", "a deadline is compared with the clock of the host",
           edit("src/bridge/intake.c", "left_ms = inbox_delivery_left_ms(delivery);", "left_ms = inbox_delivery_deadline_ms(delivery) - clock_wall_ms();"),
           tests=["faults/test_instances.py::test_exec_does_not_compare_its_clock_with_a_deadline"]),
    mutant("R30", "an extension does not move the deadline",
           edit("src/client/session.c", "\tdelivery->due_ms = ih_due_ms(timeout_ms);\n", ""),
           tests=["unit/test_handler_library.c::the_time_that_is_left_comes_from_the_timeout_and_not_from_a_clock"]),
    mutant("R30", "a killed command is awaited without a limit",
           edit("src/bridge/exec/process.c", "waitpid(pid, NULL, WNOHANG)) == 0 && clock_now_ms() < until_ms", "waitpid(pid, NULL, 0)) == 0 && clock_now_ms() < until_ms"),
           tests=["system/test_exec.py::test_exec_does_not_wait_for_a_killed_command_that_does_not_end"]),
    mutant("R30", "only the command itself is killed",
           edit("src/bridge/exec/process.c", "\t/* The group exists until its leader is reaped, so the number cannot be that of another group. */\n\t(void)kill(-process->pid, SIGKILL);",
                "\t(void)kill(process->pid, SIGKILL);"),
           edit("src/bridge/exec/process.c", "\t * already. */\n\t(void)kill(-process->pid, SIGKILL);", "\t * already. */"),
           tests=["system/test_exec.py::test_a_timeout_kills_the_whole_process_group"]),
    mutant("R30", "events of an answer line are lost",
           edit("src/bridge/exec/answer_line.c", "\treading->verdict->emit = member->raw;\n", ""),
           tests=["system/test_exec_lines.py::test_events_in_an_answer_are_stored_with_the_completion"]),
    mutant("R30", "a header is read once",
           edit("src/bridge/forward/added_headers.c", "\t\tif (file_value_path(header->value) == NULL)\n", "\t\tif (header->name_length > 0)\n"),
           tests=["system/test_forward.py::test_headers_of_the_user_are_sent_and_their_files_are_read_again"]),
    mutant("R30", "expired credentials make messages dead",
           edit("src/bridge/forward/forward.c", "\tif (added_headers_have_files(&forward->headers))\n\t\tstatus_table_renews_credentials(&forward->options.statuses);\n", ""),
           tests=["system/test_forward.py::test_refused_credentials_from_a_file_spend_no_attempt"]),
]
