/*
 * The option table: the one place that names sections, keys, types, limits, defaults and help.
 * The loader, `inboxd check` and docs/configuration.md all read it. Constant; any thread.
 */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum option_type {
	OPTION_STRING,   /* char *; min and max are bytes */
	OPTION_INT,      /* int64_t */
	OPTION_SIZE,     /* int64_t bytes */
	OPTION_DURATION, /* int64_t milliseconds */
	OPTION_ENUM,     /* int, the index of the word in `words` */
	OPTION_FLAG,     /* bool: the second of two `words` */
	OPTION_LIST,     /* struct strings; min and max are items */
	OPTION_MODE,     /* unsigned, octal */
	OPTION_UIDS,     /* uint32_t * and size_t; max is items */
};

struct option {
	const char *section;
	const char *key;
	enum option_type type;
	const char *text; /* the default as in an environment variable: lists with commas */
	int64_t min;
	int64_t max;
	const char *const *words;           /* ended by NULL */
	const char *(*check)(const char *); /* one of checks.h, asked of each text */
	bool never;                         /* a duration may be "never" */
	bool reloadable;                    /* taken over at SIGHUP */
	bool hostname;                      /* the default is the host's name */
	size_t offset;       /* in struct config; under topics in struct topic_rules */
	size_t count_offset; /* OPTION_UIDS */
	const char *help;
};

enum section_kind {
	SECTION_FIXED,     /* the keys of the table and no others */
	SECTION_OPEN,      /* all other keys are passed on to a library */
	SECTION_PER_TOPIC, /* the keys of the table, under a topic's name or "*" */
};

struct section {
	const char *name;
	enum section_kind kind;
	const char *library; /* SECTION_OPEN: whose names the other keys are */
	const char *help;
	bool listed; /* the library takes no name that it does not list */
};

extern const struct section option_sections[]; /* ended by .name == NULL */
extern const struct option option_table[];     /* ended by .section == NULL; by section */

/* NULL when there is none of that name. */
const struct section *options_section(const char *name);
const struct option *options_find(const char *section, const char *key);

/* True for the types that are lists of texts. */
bool option_is_list(const struct option *option);

/* True when `suffix` is `key` as it stands in an environment variable: BOOTSTRAP_SERVERS for
 * bootstrap.servers. */
bool options_same_variable(const char *key, const char *suffix);
/* Appends INBOXD_<SECTION>_<KEY>. */
void options_add_variable(struct buf *out, const char *section, const char *key);

/* Appends docs/configuration.md. */
void options_markdown(struct buf *out);

#endif
