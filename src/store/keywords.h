/* The connection keywords this libpq knows, for hints and environment variables. */
#ifndef STORE_KEYWORDS_H
#define STORE_KEYWORDS_H

#include "base/err.h"

/* NULL-terminated; freed with keywords_free(). */
int keywords_new(char ***out, struct err *err);
void keywords_free(char **names);

#endif
