/*
 * Implements keywords.h.
 */
#include "store/pg/keywords.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

static size_t count(const PQconninfoOption *options)
{
	size_t n = 0;

	while (options[n].keyword != NULL)
		n++;
	return n;
}

static char **copy(const PQconninfoOption *options)
{
	char **names = calloc(count(options) + 1, sizeof(*names));

	for (size_t i = 0; names != NULL && options[i].keyword != NULL; i++) {
		names[i] = strdup(options[i].keyword);
		if (names[i] == NULL) {
			keywords_free(names);
			return NULL;
		}
	}
	return names;
}

int keywords_new(char ***out, struct err *err)
{
	PQconninfoOption *options = PQconndefaults();

	if (options == NULL)
		return err_memory(err);
	*out = copy(options);
	PQconninfoFree(options);
	return *out == NULL ? err_memory(err) : 0;
}

void keywords_free(char **names)
{
	for (char **name = names; name != NULL && *name != NULL; name++)
		free(*name);
	free(names);
}
