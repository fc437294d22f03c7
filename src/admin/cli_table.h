/*
 * The tables behind the command line: every command, every option. The parser, the help, the man page and the
 * completions are made of them, so a new option is a row. Constant.
 */
#ifndef ADMIN_CLI_TABLE_H
#define ADMIN_CLI_TABLE_H

#include <stddef.h>

#include "admin/cli.h"

struct command_row {
	enum command command;
	const char *name;
	const char *summary;
	const char *usage; /* behind the name */
	const char *help;  /* behind the usage line */
	size_t words;      /* how many arguments that are no options it takes at most */
};

/* What may be replayed, and what may be discarded. */
#define CLI_REPLAY_STATES  "dead processed"
#define CLI_DISCARD_STATES "waiting retrying parked"

enum option_kind {
	KIND_FLAG,
	KIND_TEXT,
	KIND_ANY_TEXT, /* also an empty one */
	KIND_SET,
	KIND_COUNT,  /* a number from 1 */
	KIND_OFFSET, /* a number from 0 */
	KIND_AGE,    /* a duration, in ms */
};

/* A name may stand in several rows, each for other commands: the kind is the same in all of them. */
struct option_row {
	char letter; /* '\0' = none */
	const char *name;
	const char *argument; /* what help calls it; NULL = takes none */
	unsigned commands;    /* bits, 1 << command */
	enum option_kind kind;
	size_t offset; /* in struct cli, unless KIND_SET */
	const char *help;
	const char *choices; /* what may be written, separated by spaces; NULL = anything */
	/* Those of the commands that take it and do nothing with it: not in their help. */
	unsigned silent;
};

/* Whether the help of a command offers it. */
static inline bool option_is_offered(const struct option_row *option, enum command command)
{
	return (option->commands & ~option->silent & (1U << command)) != 0;
}

extern const struct command_row cli_commands[];
extern const size_t cli_command_count;
extern const struct option_row cli_options[];
extern const size_t cli_option_count;

#endif
