/*
 * From files, variables and arguments to a struct config.
 *
 * Precedence: --set over environment over file over default, key by key. A value file:/path is
 * read from that file by config_load(); secret.h reads passwords again later. Every effective value
 * keeps its origin (show.h).
 * These functions block while files are read. A loaded configuration never changes; it has one
 * owner, and any thread may read it.
 */
#ifndef CONFIG_LOAD_H
#define CONFIG_LOAD_H

#include "base/cleanup.h"
#include "base/err.h"
#include "config/config.h"

/* Where to look. All borrowed. */
struct config_sources {
	const char *file;         /* NULL = none */
	char *const *environment; /* as environ; NULL = none */
	const char *const *set;   /* texts "section.key=value" */
	size_t set_count;
	/* Every property librdkafka knows and every keyword libpq knows, each ended by NULL. With
	 * them, a variable INBOXD_KAFKA_… or INBOXD_POSTGRES_… that is none of them only warns, and
	 * a name in file or --set that is none of them is an error (libpq), or is passed on with a
	 * warning (librdkafka). NULL: variables are turned into names by their usual form. */
	const char *const *kafka_names;
	const char *const *postgres_names;
	bool without_kafka; /* what only Kafka needs may be missing: `inboxd migrate` */
	/* What would have been config->warnings when loading fails: a mistyped variable is often why.
	 * Starts empty, replaced by each failure, ended by config_names_free(). NULL: not wanted. */
	struct strings *passed_over;
};

/* FAULT_CONFIG: the words begin with the place (file:line, env NAME, --set) and name the key and
 * what to do. FAULT_USAGE: a --set without '='. FAULT_MEMORY. */
int config_load(struct config **out, const struct config_sources *sources, struct err *err);
void config_free(struct config *config);
DEFINE_CLEANUP(struct config *, config_free);

/*
 * Reads everything again. Gives the configuration to go on with: what can be taken over is new, all
 * other values are those of `running`, which stays untouched and the caller's. `restart` gets the
 * keys that changed but need a restart; it starts empty, and the caller ends it with
 * config_names_free(). A wrong configuration is an error as in config_load(): nothing is given.
 */
int config_reload(struct config **out, const struct config *running,
	const struct config_sources *sources, struct strings *restart, struct err *err);
void config_names_free(struct strings *names);

#endif
