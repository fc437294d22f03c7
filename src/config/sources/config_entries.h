/*
 * The keys that are set, each with its text and where that was written: the configuration as a person
 * wrote it. Layers put their texts over those of lower layers; the values in struct config are made of
 * what remains (load.c). The entries stay with the configuration, for `inboxd check`, for errors that name two keys,
 * and for the comparison at a reload.
 *
 * One thread until the configuration is loaded; read-only afterwards.
 */
#ifndef CONFIG_SOURCES_CONFIG_ENTRIES_H
#define CONFIG_SOURCES_CONFIG_ENTRIES_H

#include "base/cleanup.h"
#include "config/config.h"
#include "config/sources/keys.h"

/* What a layer says about a key, borrowed. */
struct config_entry_value {
	const char *const *texts;
	size_t count;
	bool list;          /* written as a list */
	bool commas;        /* one text; where a list is expected, commas separate its items */
	bool nothing;       /* no text was written: an empty list where a list is expected */
	bool standard;      /* the default */
	bool removed;       /* see struct config_entry */
	bool from_file;     /* see struct config_entry */
	const char *file;   /* see struct config_entry */
	const char *origin; /* "inboxd.yaml:3", "env INBOXD_LOG_LEVEL", "--set", "default" */
};

struct config_entry {
	const struct section *section;
	const struct option *option; /* NULL: passed on to a library */
	char *scope;                 /* NULL outside of topics and consumers */
	char *path;                  /* "kafka.group.id", "topics.orders.id" */
	const char *name;            /* the end of `path` */
	struct strings texts;
	char *origin;
	char *file; /* the path from which its one text was read; NULL: none */
	bool list;
	bool commas;
	bool standard;
	bool from_file; /* a text is that of a file, or names a file that is not needed */
	bool removed;   /* a reload found the key not written any more: it has no text */
};

struct config_entries {
	struct config_entry *items; /* in the order in which the keys were first put */
	size_t count;
	size_t capacity;
};

int config_entries_new(struct config_entries **out, struct err *err);
void config_entries_free(struct config_entries *entries);
DEFINE_CLEANUP(struct config_entries *, config_entries_free);

/* Copies the key and the value. An entry of the same key is replaced, and keeps its position. On failure
 * the entries are unchanged. */
int config_entries_put(struct config_entries *entries, const struct key *key,
	const struct config_entry_value *value, struct err *err);
/* The same with the key and the value of an entry of another set. */
int config_entries_put_entry(
	struct config_entries *entries, const struct config_entry *entry, struct err *err);

/* NULL when there is none. Borrowed until the next put. */
struct config_entry *config_entries_find(const struct config_entries *entries, const char *section,
	const char *scope, const char *name);
/* The entry with the key of an entry of another set. */
struct config_entry *config_entries_same(
	const struct config_entries *entries, const struct config_entry *entry);

/* True if both have the same keys with the same texts, written at the same places. NULL has no keys. */
bool config_entries_are_equal(const struct config_entries *a, const struct config_entries *b);

/* Makes the texts final: replaces each file:/path by the content of the file (without one newline at its end), splits at
 * commas where a list is expected, and joins lists with commas for the libraries. Blocks while reading files. Call it once,
 * when all layers are there: it does not check a text that a higher layer has replaced. `without_kafka`: no file of a key
 * that librdkafka gets is opened, because the command does not connect to Kafka and its user may have no access to the
 * secrets. `running`: the entries in use, from which a text of a pipe is taken, because a pipe is read only once; NULL at the
 * start. FAULT_CONFIG names the place, the key and the file; FAULT_MEMORY. */
int config_entries_complete(struct config_entries *entries, const struct config_entries *running,
	bool without_kafka, struct err *err);

/* True when a changed value takes effect at SIGHUP. */
bool config_entry_is_reloadable(const struct config_entry *entry);

#endif
