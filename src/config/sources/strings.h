/*
 * Texts of the configuration: strings on the heap, lists of them, and whole small files.
 *
 * One thread a call. Every function that allocates can fail with FAULT_MEMORY; text_file_read() blocks
 * and has other errors, too.
 */
#ifndef CONFIG_SOURCES_STRINGS_H
#define CONFIG_SOURCES_STRINGS_H

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

#define TEXT_FILE_MAX_BYTES 1048576

/* Gives a copy of the first `length` bytes, with a NUL behind them. */
int string_copy(char **out, const char *text, size_t length, struct err *err);
/* Gives the formatted text. */
int string_format(char **out, struct err *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Appends a copy of the first `length` bytes. On failure the list is unchanged. */
int strings_add(struct strings *list, const char *text, size_t length, struct err *err);
/* Appends the formatted text. On failure the list is unchanged. */
int strings_addf(struct strings *list, struct err *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Appends copies of all items of `from`. On failure some of them may have been appended. */
int strings_add_all(struct strings *list, const struct strings *from, struct err *err);
/* Appends the parts of `text` between commas, without the blanks around them; an empty or blank
 * text has no parts. On failure some of them may have been appended. */
int strings_add_parts(struct strings *list, const char *text, struct err *err);
bool strings_have(const struct strings *list, const char *text);
bool strings_equal(const struct strings *a, const struct strings *b);
/* Frees the items and empties the list. */
void strings_fini(struct strings *list);

/* Appends the whole file to `out`. Blocks as long as open(2) and read(2) do, because the path may be
 * that of a pipe. FAULT_CONFIG with the path when the file cannot be read or is larger than
 * TEXT_FILE_MAX_BYTES. */
int text_file_read(const char *path, struct buf *out, struct err *err);

/* The same, but waits for no pipe: FAULT_CONFIG if the path is not that of a regular file. For files that are read while
 * threads wait for it. */
int text_file_read_regular(const char *path, struct buf *out, struct err *err);

#endif
