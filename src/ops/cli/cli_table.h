/*
 * The tables of the command line: every command and every option. The parser, the help, the man
 * page and the completions use them, so that a new option is one row. Constant.
 */
#ifndef OPS_CLI_CLI_TABLE_H
#define OPS_CLI_CLI_TABLE_H

#include <stddef.h>

#include "ops/cli/cli.h"

struct command_row {
	enum command command;
	const char *name;
	const char *summary;
	const char *usage; /* follows the name */
	const char *help;  /* follows the usage line */
	size_t words;      /* maximum number of arguments that are not options */
};

/* The states of messages that can be replayed, discarded, or retried now. */
#define CLI_REPLAY_STATES  "dead processed discarded"
#define CLI_DISCARD_STATES "waiting retrying parked dead"
#define CLI_RETRY_STATES   "retrying waiting"

enum option_kind {
	KIND_FLAG,
	KIND_OPTIONAL, /* a text behind '='; without one it is empty */
	KIND_TEXT,
	KIND_ANY_TEXT, /* may be empty */
	KIND_SET,
	KIND_TEXTS,  /* may be repeated */
	KIND_COUNT,  /* a number, 1 or more */
	KIND_OFFSET, /* a number, 0 or more */
	KIND_AGE,    /* a duration, in ms */
	KIND_SPAN,   /* the same, longer than 0 */
};

/* A name may occur in several rows, for different commands. All of them take a value, or none does. */
struct option_row {
	char letter; /* '\0' = none */
	const char *name;
	const char *argument; /* its name in the help; NULL = no argument */
	unsigned commands;    /* bits, 1 << command */
	enum option_kind kind;
	size_t offset; /* in struct cli, unless KIND_SET */
	const char *help;
	const char *choices; /* the allowed values, separated by spaces; NULL = any */
	/* Commands that accept the option and ignore it; their help does not list it. */
	unsigned silent;
};

/* The commands that are handlers: they read no configuration. */
#define CLI_BRIDGES ((1U << COMMAND_EXEC) | (1U << COMMAND_FORWARD))

/* True for an option of every command that reads the configuration, and possibly of the others. */
static inline bool option_is_general(const struct option_row *option)
{
	return (option->commands | CLI_BRIDGES) == ~0U;
}

/* True when the help of the command lists the option. */
static inline bool option_is_offered(const struct option_row *option, enum command command)
{
	return (option->commands & ~option->silent & (1U << command)) != 0;
}

/* Names in other programs for what a command does. */
struct near_word {
	const char *words; /* separated by spaces */
	const char *hint;  /* the command to run, without `inboxd` */
};

extern const struct near_word cli_near_words[];
extern const size_t cli_near_word_count;
extern const struct command_row cli_commands[];
extern const size_t cli_command_count;
extern const struct option_row cli_options[];
extern const size_t cli_option_count;

#endif
