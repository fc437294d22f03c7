/*
 * The configuration as texts: one entry a key, with where it came from. Layers put their texts on
 * top of each other here; values are made from what is left. One thread.
 */
#ifndef CONFIG_ENTRIES_H
#define CONFIG_ENTRIES_H

#include "base/cleanup.h"
#include "config/config.h"
#include "config/options.h"

/* The name of an entry, borrowed. */
struct entry_key {
	const struct section *section;
	const char *topic; /* under topics, else NULL */
	const char *name;
};

/* What a layer says of a key, borrowed. */
struct entry_value {
	struct strings texts;
	bool list;          /* written as a list */
	bool commas;        /* one text, whose parts are a list when a list is asked */
	bool standard;      /* the default */
	const char *file;   /* see struct entry */
	const char *origin; /* "inboxd.yaml:3", "env INBOXD_LOG_LEVEL", "--set", "default" */
};

struct entry {
	const struct section *section;
	const struct option *option; /* NULL: passed on to a library */
	char *topic;                 /* NULL outside of topics */
	char *path;                  /* "kafka.group.id", "topics.orders.id" */
	const char *name;            /* the end of `path` */
	struct strings texts;
	char *origin;
	char *file; /* the path its one text was read from; NULL: none */
	bool list;
	bool commas;
	bool standard;
};

struct entries {
	struct entry *items; /* in the order they were first put */
	size_t count;
	size_t capacity;
};

int entries_new(struct entries **out, struct err *err);
void entries_free(struct entries *entries);
DEFINE_CLEANUP(struct entries *, entries_free);

/* Copies both; what was there under the key is replaced. On failure it is as it was. */
int entries_put(struct entries *entries, const struct entry_key *key,
	const struct entry_value *value, struct err *err);
/* Copies an entry of another set in the same way. */
int entries_put_entry(struct entries *entries, const struct entry *entry, struct err *err);
/* NULL when there is none. Borrowed until the next put. */
struct entry *entries_find(const struct entries *entries, const struct entry_key *key);
/* The entry of the same key. */
struct entry *entries_like(const struct entries *entries, const struct entry *entry);

/* Replaces every file:/path by what is in the file (one newline at its end cut), then splits texts
 * with commas where a list is asked and joins lists where a library asks for commas. Blocks while reading; call it once. FAULT_CONFIG names the
 * place, the key and the file; FAULT_MEMORY. */
int entries_resolve(struct entries *entries, struct err *err);

#endif
