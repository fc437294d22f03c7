/*
 * Names of keys: from a name as it was written in the file, in a variable or behind --set to a key that
 * can be set, or to an error that helps: the nearest known name, the section that has the key, or why
 * the name is refused.
 *
 * Not every key has an option. Under `kafka` and `postgres` other names are passed on to librdkafka and
 * libpq, and only those libraries know them all. This module knows the few that inboxd decides itself.
 * Pure; any thread.
 */
#ifndef CONFIG_SOURCES_KEYS_H
#define CONFIG_SOURCES_KEYS_H

#include "base/buf.h"
#include "base/err.h"
#include "config/load.h"
#include "config/options/options.h"
#include "config/sources/nearest.h"

/* What was written, borrowed. */
struct written_key {
	const char *section;
	const char *scope;  /* a topic or a consumer; NULL when none was written */
	const char *name;   /* NULL when only a section was written */
	const char *origin; /* where it was written; errors begin with it */
};

/* A key that can be set, borrowed. */
struct key {
	const struct section *section;
	const struct option *option; /* NULL: passed on to a library */
	const char *scope;           /* a topic or a consumer; NULL in other sections */
	const char *name;
};

/* Gives the key, which borrows from `written`. Adds a warning when librdkafka does not list the name: it
 * accepts names that it does not list. FAULT_CONFIG, FAULT_MEMORY. */
int key_find(struct key *out, const struct written_key *written,
	const struct config_sources *sources, struct strings *warnings, struct err *err);

/* The first version of librdkafka that has this name under `kafka`; NULL: unknown, or it was there before 2.0.2, the oldest
 * version that inboxd is built with. */
const char *key_first_version(const char *name);

/* Offers the keys of inboxd's own in this section. */
void key_offer_own(struct nearest *nearest, const char *section);

/* The name that `suffix` of a variable INBOXD_<SECTION>_<suffix> stands for: an option's, or one that the
 * section's library lists, or, when no list was given, the usual form of the library's names, written
 * into `scratch`. NULL when there is none. */
const char *key_of_variable(const struct section *section, const char *suffix,
	const struct config_sources *sources, struct buf *scratch);

#endif
