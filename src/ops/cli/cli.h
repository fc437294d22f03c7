/*
 * The command line: the command, its options and its arguments. Pure, except that cli_config_file()
 * checks whether the standard file exists. One thread.
 */
#ifndef OPS_CLI_CLI_H
#define OPS_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CLI_STANDARD_FILE "/etc/inboxd/inboxd.yaml"

enum command {
	COMMAND_NONE, /* only with `help` */
	COMMAND_RUN,
	COMMAND_MIGRATE,
	COMMAND_CHECK,
	COMMAND_CONFIG,
	COMMAND_INIT,
	COMMAND_STATUS,
	COMMAND_LIST,
	COMMAND_SHOW,
	COMMAND_EXPORT,
	COMMAND_REPLAY,
	COMMAND_RETRY,
	COMMAND_RESOLVE,
	COMMAND_DISCARD,
	COMMAND_PURGE,
	COMMAND_ADOPT,
	COMMAND_VERIFY,
	COMMAND_SEEK,
	COMMAND_HANDLERS,
	COMMAND_KEYS,
	COMMAND_SKIP,
	COMMAND_PAUSE,
	COMMAND_RESUME,
	COMMAND_AUDIT,
	COMMAND_CONSUMERS,
	COMMAND_BACKFILL,
	COMMAND_OUTBOX,
	COMMAND_REQUESTS,
	COMMAND_EXEC,
	COMMAND_FORWARD,
	COMMAND_VERSION,
};

/* Which rows a command is about; NULL = any. */
struct cli_filter {
	const char *status;
	const char *consumer; /* "" = the one without a name */
	const char *topic;
	const char *type;
	const char *key;
	const char *since;
	const char *until;
	const char *error; /* text within the error */
	const char *code;  /* error code */
	const char *trace; /* its id, or a traceparent */
	const char *scope; /* of requests */
	const char *who;   /* of the audit table; so does the next one */
	const char *action;
	bool dead;
	bool group;       /* groups of dead rows instead of rows */
	bool rejects;     /* refused records instead of messages */
	bool conflicts;   /* conflicts instead of messages */
	int64_t conflict; /* replay --conflict: a seq; 0 = not given */
};

/* Offsets of a topic that a command is about. */
struct cli_range {
	int64_t partition; /* -1 = not given; so do the next two */
	int64_t from;
	int64_t to;
	const char *to_time;
	const char *from_consumer; /* backfill --from */
};

/* How many rows a command lists or changes, and in which order. */
struct cli_bounds {
	const char *order; /* NULL = not given */
	bool reverse;
	bool is_max;        /* the limit was given as --max */
	int64_t limit;      /* --limit or --max; 0 = not given, as the next one */
	int64_t after;      /* a seq */
	int64_t older_than; /* ms; -1 = not given */
};

/* The values of an option that may be repeated, in order. */
struct cli_texts {
	const char **items; /* owned by the struct */
	size_t count;
};

/* A handler that is a command of inboxd: which messages it takes, and how. */
struct cli_bridge {
	const char *handler;
	const char *socket;
	struct cli_texts topics;
	struct cli_texts types;
	int64_t jobs;    /* 0 = not given; so do the next two */
	int64_t timeout; /* ms */
	int64_t extend;  /* ms */
	bool lines;      /* exec --lines */
	bool settled;
	const char *url; /* the rest is of forward */
	struct cli_texts headers;
	const char *mode;
	const char *ca;
	const char *cert;
	const char *key;
	bool h2c;
	int64_t connect_timeout; /* ms */
};

/* All texts are borrowed from argv. */
struct cli {
	enum command command;
	bool help;               /* print cli_add_help() and nothing else */
	const char *config_file; /* -c; NULL when not given */
	const char **set;        /* --set, in order; owned by the struct */
	size_t set_count;
	bool json;
	bool migrate;            /* run --migrate */
	const char *roles;       /* migrate --roles: the prefix, "" = none; NULL = not given */
	struct cli_texts grants; /* migrate --grant: ROLE=USER */
	bool force;              /* init --force */
	const char **words;      /* arguments that are not options, in order; owned by the struct */
	size_t word_count;
	struct cli_filter filter;
	struct cli_range range;
	struct cli_bounds bounds;
	struct cli_bridge bridge;
	const char *source;
	const char *by; /* show --by; NULL = not given */
	const char *payload;
	struct cli_texts redact; /* export --redact */
	bool body;               /* requests show --body */
	const char *reason;
	bool ingest; /* pause --ingest */
	bool again;  /* backfill --again */
	bool dry_run;
	bool yes;
};

/* Fills `out`, which the caller ends with cli_fini(), also after an error. FAULT_USAGE: the text
 * names the mistake and the nearest known name. FAULT_MEMORY. */
int cli_parse(struct cli *out, int argc, char *const *argv, struct err *err);
void cli_fini(struct cli *cli);

/* Appends the help of the command, or of the program for COMMAND_NONE. */
void cli_add_help(struct buf *out, enum command command);

/* The configuration file: that of -c, otherwise `from_env` (INBOXD_CONFIG) unless it is empty,
 * otherwise `standard` if it exists, otherwise NULL. */
const char *cli_config_file(const struct cli *cli, const char *from_env, const char *standard);

/* True for decimal digits that fit into `out`, and nothing else. */
bool cli_number(const char *text, int64_t *out);
/* True when `text` is one of the words in `choices`, which are separated by spaces. */
bool cli_is_choice(const char *choices, const char *text);

#endif
