/*
 * From a name as somebody wrote it to a key that exists, or to words that help: the nearest known
 * name, the section it belongs to, why it is refused. Pure; any thread.
 */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include "base/err.h"
#include "config/entries.h"

struct key_place {
	const char *section;
	const char *topic;  /* NULL when none was written */
	const char *name;   /* NULL when only a section was written */
	const char *origin; /* what errors begin with */
};

/* Fills `out`, which borrows from `place`. FAULT_CONFIG. */
int key_find(struct entry_key *out, const struct key_place *place, struct err *err);

#endif
