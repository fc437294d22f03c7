/*
 * The known name nearest to a mistyped one, for "did you mean". Pure; any thread; no allocation.
 *
 *	nearest_start(&nearest, "shcema");
 *	for each known name: nearest_offer(&nearest, name);
 *	nearest_hint(&nearest, hint);       // `; did you mean "schema"?`
 */
#ifndef CONFIG_NEAREST_H
#define CONFIG_NEAREST_H

#include <stddef.h>

#define NEAREST_HINT_BYTES 160

struct nearest {
	const char *wanted;
	const char *best; /* NULL while nothing is near enough */
	size_t distance;
};

/* Keeps `wanted`. */
void nearest_start(struct nearest *nearest, const char *wanted);
/* Keeps `name` when it is the nearest so far; of equals the first stays. */
void nearest_offer(struct nearest *nearest, const char *name);
/* The question to put behind an error, or "" when nothing is near enough to ask. */
void nearest_hint(const struct nearest *nearest, char out[NEAREST_HINT_BYTES]);

#endif
