/*
 * The option table: the only place that names sections, keys, types, limits, defaults and help texts.
 * load.c, `inboxd check` and docs/configuration.md are driven by it, so that a key cannot be documented
 * in one way and parsed in another. Constant; any thread.
 */
#ifndef CONFIG_OPTIONS_OPTIONS_H
#define CONFIG_OPTIONS_OPTIONS_H

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
	const char *(*check)(const char *); /* a check of value.h, called for each text */
	bool never;                         /* a duration can be "never" */
	bool reloadable;                    /* takes effect at SIGHUP */
	bool hostname;                      /* the default is the host's name */
	bool command; /* a program and its arguments, which can be secrets and are not shown */
	/* under consumers: the section whose key of the same name counts if this one is not written */
	const char *general;
	size_t offset;       /* in struct config, or in the struct of its scope */
	size_t count_offset; /* OPTION_UIDS */
	const char *help;
};

enum section_kind {
	SECTION_FIXED,        /* only the keys of the table */
	SECTION_OPEN,         /* other keys are passed on to a library */
	SECTION_PER_TOPIC,    /* the keys of the table, under a topic's name or "*" */
	SECTION_PER_CONSUMER, /* the keys of the table, under a consumer's name */
	SECTION_PER_HANDLER,  /* the keys of the table, under a SQL handler's name */
};

struct section {
	const char *name;
	enum section_kind kind;
	const char *library; /* SECTION_OPEN: the library that other keys are passed to */
	const char *help;
	bool listed; /* the library accepts only the names that it lists */
};

extern const struct section option_sections[]; /* ended by .name == NULL */
extern const struct option option_table[];     /* ended by .section == NULL; by section */

/* NULL when there is none of that name. */
const struct section *options_section(const char *name);
/* True when the keys of the section are written under names: of topics, consumers or handlers. */
bool section_has_scopes(const struct section *section);
const struct option *options_find(const char *section, const char *key);

/* True for the types that are lists of texts. */
bool option_is_list(const struct option *option);

/* True when `suffix` is `key` as an environment variable spells it: BOOTSTRAP_SERVERS for
 * bootstrap.servers. */
bool options_same_variable(const char *key, const char *suffix);
/* Appends INBOXD_<SECTION>_<KEY>. */
void options_add_variable(struct buf *out, const char *section, const char *key);

#endif
