/*
 * The command line: which command, with which options, on what. Pure but for one look whether the
 * standard file exists. One thread.
 */
#ifndef ADMIN_CLI_H
#define ADMIN_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define CLI_STANDARD_FILE "/etc/inboxd/inboxd.yaml"

enum command {
	COMMAND_NONE, /* only with `help` */
	COMMAND_RUN,
	COMMAND_MIGRATE,
	COMMAND_CHECK,
	COMMAND_VERSION,
};

/* All texts are borrowed from argv. */
struct cli {
	enum command command;
	bool help;               /* print cli_add_help() and do nothing else */
	const char *config_file; /* -c; NULL when not given */
	const char **set;        /* --set, in order; owned by the struct */
	size_t set_count;
	bool json;
	bool migrate; /* run --migrate */
	bool roles;   /* migrate --roles */
};

/* Fills `out`, which the caller ends with cli_fini(), also after an error. FAULT_USAGE with words
 * that name what is wrong and the nearest known name; FAULT_MEMORY. */
int cli_parse(struct cli *out, int argc, char *const *argv, struct err *err);
void cli_fini(struct cli *cli);

/* Appends the help of the command, or of the program when there is none. */
void cli_add_help(struct buf *out, enum command command);

/* The configuration file to read: that of -c, else `from_env` (INBOXD_CONFIG) unless empty, else
 * `standard` if it exists, else NULL. */
const char *cli_config_file(const struct cli *cli, const char *from_env, const char *standard);

#endif
