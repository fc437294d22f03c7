/*
 * The connection keywords of this libpq, for hints in error texts and for environment variables.
 * Pure.
 */
#ifndef STORE_PG_KEYWORDS_H
#define STORE_PG_KEYWORDS_H

#include "base/err.h"

/* NULL-terminated; free with keywords_free(). */
int keywords_new(char ***out, struct err *err);
void keywords_free(char **names);

#endif
