/*
 * The result rows of a statement, in binary format. Values are borrowed until rows_free(). Columns
 * and rows count from 0; the caller must not ask for a column that does not exist. One thread.
 */
#ifndef STORE_PG_ROWS_H
#define STORE_PG_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"

struct rows;

void rows_free(struct rows *rows);
DEFINE_CLEANUP(struct rows *, rows_free);
int rows_count(const struct rows *rows);
/* The number of rows that an UPDATE, DELETE or INSERT without RETURNING changed. */
int64_t rows_affected(const struct rows *rows);
bool rows_is_null(const struct rows *rows, int row, int column);
int64_t rows_int(const struct rows *rows, int row, int column); /* int2, int4, int8; NULL = 0 */
bool rows_bool(const struct rows *rows, int row, int column);   /* NULL = false */
struct bytes rows_bytes(const struct rows *rows, int row, int column); /* bytea, text, jsonb text */
const char *rows_text(
	const struct rows *rows, int row, int column); /* NUL-terminated; NULL = NULL */
int64_t rows_timestamp_ms(const struct rows *rows, int row, int column); /* -1 = NULL */

/* Takes the first value from a sequence of values that a statement packed into one: a length of
 * four bytes, most significant byte first, then the value; length -1 is NULL. False: `from` is
 * empty or incomplete. `out` is borrowed from `from`. */
bool rows_take_run(struct bytes *from, struct bytes *out);

#endif
