/*
 * The rows a statement gave back, in binary. What is read from them is borrowed until rows_free().
 * One thread. Columns and rows count from 0; a column that is not there is a bug.
 */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cleanup.h"

struct rows;

void rows_free(struct rows *rows);
DEFINE_CLEANUP(struct rows *, rows_free);
int rows_count(const struct rows *rows);
/* Rows that an UPDATE or INSERT without RETURNING touched. */
int64_t rows_affected(const struct rows *rows);
bool rows_is_null(const struct rows *rows, int row, int column);
int64_t rows_int(const struct rows *rows, int row, int column); /* int2, int4, int8; NULL = 0 */
bool rows_bool(const struct rows *rows, int row, int column);   /* NULL = false */
struct bytes rows_bytes(const struct rows *rows, int row, int column); /* bytea, text, jsonb text */
const char *rows_text(
	const struct rows *rows, int row, int column); /* NUL-terminated; NULL = NULL */
int64_t rows_timestamp_ms(const struct rows *rows, int row, int column); /* -1 = NULL */

/* Takes the first of several values that a statement put into one: four bytes of length, most significant first, then
 * the value; length -1 is NULL. False: there is none, or not the whole of it. Borrowed from `from`. */
bool rows_take_run(struct bytes *from, struct bytes *out);

#endif
