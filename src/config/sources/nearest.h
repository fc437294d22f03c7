/*
 * Finds the known name nearest to a mistyped one, for "did you mean" in errors of the configuration, the
 * command line and the handler protocol. Pure; any thread; no allocation.
 *
 *	nearest_start(&nearest, "shcema");
 *	for each known name: nearest_offer(&nearest, name);
 *	nearest_hint(&nearest, hint);       // `; did you mean "schema"?`
 */
#ifndef CONFIG_SOURCES_NEAREST_H
#define CONFIG_SOURCES_NEAREST_H

#include <stddef.h>

#define NEAREST_HINT_BYTES 160

struct nearest {
	const char *wanted;
	const char *best; /* NULL while nothing is near enough */
	size_t distance;
};

/* Keeps `wanted`. */
void nearest_start(struct nearest *nearest, const char *wanted);
/* Keeps `name` when it is the nearest so far. Of equally near names the first one stays. */
void nearest_offer(struct nearest *nearest, const char *name);
/* Keeps `name`, whatever was offered. */
void nearest_prefer(struct nearest *nearest, const char *name);
/* The question to append to an error, or "" when no name is near enough. */
void nearest_hint(const struct nearest *nearest, char out[NEAREST_HINT_BYTES]);

#endif
