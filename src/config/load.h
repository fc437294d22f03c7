/*
 * Makes a struct config of a file, environment variables and arguments.
 *
 * For each key, --set takes precedence over the environment, that over the file, and that over the
 * default. config_load() reads a value file:/path from that file; secret.h reads passwords again later.
 * Every effective value keeps its origin (show.h).
 *
 * These functions block while they read files. A loaded configuration never changes; it has one owner,
 * and any thread can read it.
 */
#ifndef CONFIG_LOAD_H
#define CONFIG_LOAD_H

#include "base/cleanup.h"
#include "base/err.h"
#include "config/config.h"

/* What to read. All borrowed. */
struct config_sources {
	const char *file;         /* NULL = none */
	char *const *environment; /* as environ; NULL = none */
	const char *const *set;   /* texts "section.key=value" */
	size_t set_count;
	/* All properties of librdkafka and all keywords of libpq, each list ended by NULL. A variable
	 * INBOXD_KAFKA_… or INBOXD_POSTGRES_… that names none of them is ignored with a warning. Such a
	 * name in the file or in --set is an error (libpq), or is passed on with a warning (librdkafka).
	 * NULL: the names are not known; names of variables get the usual form of the library. */
	const char *const *kafka_names;
	const char *const *postgres_names;
	bool without_kafka; /* the command does not connect to Kafka, so keys that only Kafka needs, and the files that
			       these keys name, can be missing */
	/* When loading fails: the warnings, because a mistyped variable is often the reason. Starts empty;
	 * each failure replaces it; the caller ends it with strings_fini(). NULL: not wanted. */
	struct strings *warnings_on_failure;
};

/* FAULT_CONFIG: the error begins with the place (file:line, env NAME, --set) and says the key and what to
 * do. FAULT_USAGE: a --set without '='. FAULT_MEMORY. */
int config_load(struct config **out, const struct config_sources *sources, struct err *err);
/* After config_load() has failed: the text that http.listen would have as far as the sources can be read; otherwise its
 * default. FAULT_MEMORY. */
int config_find_listen(char **out, const struct config_sources *sources, struct err *err);
void config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free);

/*
 * Reads everything again and gives the configuration to continue with: the values of reloadable keys are
 * new, all others are those of `running`, which is unchanged and stays the caller's. Adds to `restart` the
 * keys that changed but need a restart; it starts empty, and the caller ends it with strings_fini().
 * An error in the configuration is returned as by config_load(); nothing is given then.
 */
int config_reload(struct config **out, const struct config *running,
	const struct config_sources *sources, struct strings *restart, struct err *err);
/* True if both have the same values, and the same ones wait for a restart. */
bool config_is_equal(const struct config *a, const struct config *b);

#endif
