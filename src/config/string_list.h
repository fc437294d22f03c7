/*
 * Owned texts and growing lists of them: what the configuration is made of until it has types.
 * Non-blocking; one thread. Every function that allocates fails with FAULT_MEMORY only and then
 * leaves its list as it was.
 */
#ifndef CONFIG_STRING_LIST_H
#define CONFIG_STRING_LIST_H

#include "base/err.h"
#include "config/config.h"

/* Gives a copy of the first `length` bytes, NUL-terminated. */
int string_copy(char **out, const char *text, size_t length, struct err *err);
/* Gives `format` filled in. */
int string_format(char **out, struct err *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Appends a copy of the first `length` bytes. */
int strings_add(struct strings *list, const char *text, size_t length, struct err *err);
/* Appends `format` filled in. */
int strings_addf(struct strings *list, struct err *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Appends copies of all of `from`. On failure some may have been appended. */
int strings_add_all(struct strings *list, const struct strings *from, struct err *err);
/* Appends the parts of `text` between commas, without the blanks around them; an empty or blank
 * text has no parts. On failure some may have been appended. */
int strings_add_parts(struct strings *list, const char *text, struct err *err);
bool strings_have(const struct strings *list, const char *text);
bool strings_equal(const struct strings *a, const struct strings *b);
void strings_fini(struct strings *list);

#endif
