/*
 * inboxd: arguments, command, exit code. Everything else is in the static libraries.
 */
#include <malloc.h>
#include <stdio.h>

#include "base/output.h"
#include "ops/cli/cli.h"
#include "ops/commands.h"

#define ARENAS 2

/* By default glibc gives each thread its own arena, and each arena keeps the memory it once needed.
 * Most threads need very little memory. */
static void spare_memory(void)
{
#ifdef M_ARENA_MAX
	(void)mallopt(M_ARENA_MAX, ARENAS);
#endif
}

int main(int argc, char **argv)
{
	struct err err = ERR_INIT;
	struct err written = ERR_INIT;
	struct cli cli = { .command = COMMAND_NONE };
	int r;

	output_begin();
	spare_memory();
	r = cli_parse(&cli, argc, argv, &err);
	if (r == 0)
		r = command_execute(&cli, &err);
	cli_fini(&cli);
	if (r != 0 && err.text[0] != '\0')
		(void)fprintf(stderr, "inboxd: %s\n", err.text);
	if (output_end(&written) != 0) {
		(void)fprintf(stderr, "inboxd: %s\n", written.text);
		r = r == 0 ? FAULT_OUTPUT : r;
	}
	return err_exit_code(r);
}
