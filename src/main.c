/*
 * inboxd: arguments, command, exit code, and the standard streams. Everything else is in the static libraries.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_output.h"
#include "ops/cli/cli.h"
#include "ops/commands.h"

#define ARENAS   2
#define FLUSH_MS 1000

/* The first step, before anything is opened: the number of a closed standard stream must not be given to a connection.
 * Opens closed ones in the wrong direction: their use fails, as if they were still closed. Also ignores SIGPIPE: if the
 * reader of stdout ends, a command that changes something still completes the change. */
static void begin_output(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	}
	(void)signal(SIGPIPE, SIG_IGN);
}

/* By default glibc gives each thread its own arena, and each arena keeps the memory it once needed.
 * Most threads need very little memory. */
static void spare_memory(void)
{
#ifdef M_ARENA_MAX
	(void)mallopt(M_ARENA_MAX, ARENAS);
#endif
}

/* Flushes stdout. 0, also if its reader has ended: it does not need the rest. FAULT_OUTPUT. */
static int end_output(struct err *err)
{
	int error = fflush(stdout) == 0 ? 0 : errno;

	if (error == 0 && ferror(stdout) == 0)
		return 0;
	/* An earlier write failed, and its errno is lost. The output is broken anyway, so one more write shows the
	 * errno again. */
	if (error == 0)
		error = write(STDOUT_FILENO, "\n", 1) < 0 ? errno : 0;
	if (error == EPIPE)
		return 0;
	(void)err_set(err, FAULT_OUTPUT,
		"cannot write to stdout: %s; the command is done, but its output is incomplete",
		error == 0 ? "a write failed" : strerror(error));
	return err_advise(err, "free some space or redirect stdout, then look again");
}

/* A long-running command must end although nobody reads stderr. */
static void say(const struct err *err)
{
	char line[sizeof(err->text) + 16];
	int length = snprintf(line, sizeof(line), "inboxd: %s\n", err->text);

	if (length > 0)
		log_output_add(line, (size_t)length);
}

int main(int argc, char **argv)
{
	struct err err = ERR_INIT;
	struct err written = ERR_INIT;
	struct cli cli = { .command = COMMAND_NONE };
	int r;

	begin_output();
	spare_memory();
	r = cli_parse(&cli, argc, argv, &err);
	if (r == 0)
		r = command_execute(&cli, &err);
	log_repeats(true); /* of a command that ends before the window of the limit is over */
	cli_fini(&cli);
	if (r != 0 && err.text[0] != '\0')
		say(&err);
	if (end_output(&written) != 0) {
		say(&written);
		r = r == 0 ? FAULT_OUTPUT : r;
	}
	log_output_end(FLUSH_MS);
	return err_exit_code(r);
}
