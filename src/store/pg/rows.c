/*
 * Implements rows.h. A `struct rows` is libpq's PGresult under another name; nothing is copied.
 */
#include "store/pg/rows.h"

#include <endian.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "store/pg/pipeline.h"
#include "store/pg/types.h"

#define EPOCH_2000_MS 946684800000LL

struct rows *rows_of_result(struct pg_result *result)
{
	return (struct rows *)result;
}

static const PGresult *result_of(const struct rows *rows)
{
	return (const PGresult *)rows;
}

void rows_free(struct rows *rows)
{
	PQclear((PGresult *)rows);
}

int rows_count(const struct rows *rows)
{
	return rows == NULL ? 0 : PQntuples(result_of(rows));
}

int64_t rows_affected(const struct rows *rows)
{
	PGresult *result;

	/* libpq only reads the result here, but its prototype lacks const */
	memcpy(&result, &rows, sizeof(void *));
	return strtoll(PQcmdTuples(result), NULL, 10);
}

bool rows_is_null(const struct rows *rows, int row, int column)
{
	return PQgetisnull(result_of(rows), row, column) != 0;
}

int64_t rows_int(const struct rows *rows, int row, int column)
{
	const char *value = PQgetvalue(result_of(rows), row, column);
	uint64_t wide;
	uint32_t word;
	uint16_t half;

	if (rows_is_null(rows, row, column))
		return 0;
	switch (PQgetlength(result_of(rows), row, column)) {
	case sizeof(wide):
		memcpy(&wide, value, sizeof(wide));
		return (int64_t)be64toh(wide);
	case sizeof(word):
		memcpy(&word, value, sizeof(word));
		return (int32_t)be32toh(word);
	case sizeof(half):
		memcpy(&half, value, sizeof(half));
		return (int16_t)be16toh(half);
	default:
		return 0;
	}
}

bool rows_bool(const struct rows *rows, int row, int column)
{
	return !rows_is_null(rows, row, column) && PQgetvalue(result_of(rows), row, column)[0] != 0;
}

struct bytes rows_bytes(const struct rows *rows, int row, int column)
{
	struct bytes bytes = { NULL, 0 };

	if (rows_is_null(rows, row, column))
		return bytes;
	bytes.data = PQgetvalue(result_of(rows), row, column);
	bytes.length = (size_t)PQgetlength(result_of(rows), row, column);
	if (PQftype(result_of(rows), column) == TYPE_JSONB && bytes.length > 0) {
		bytes.data = (const char *)bytes.data + 1;
		bytes.length--;
	}
	return bytes;
}

const char *rows_text(const struct rows *rows, int row, int column)
{
	return rows_bytes(rows, row, column).data;
}

int64_t rows_timestamp_ms(const struct rows *rows, int row, int column)
{
	int64_t us = rows_int(rows, row, column);

	if (rows_is_null(rows, row, column))
		return -1;
	return us / 1000 - (us % 1000 < 0) + EPOCH_2000_MS;
}

bool rows_take_run(struct bytes *from, struct bytes *out)
{
	uint32_t wire;
	int32_t length;
	size_t taken;
	const char *value;

	if (from->length < sizeof(wire))
		return false;
	memcpy(&wire, from->data, sizeof(wire));
	length = (int32_t)be32toh(wire);
	taken = length < 0 ? 0 : (size_t)length;
	if (taken > from->length - sizeof(wire))
		return false;
	value = (const char *)from->data + sizeof(wire);
	*out = (struct bytes){ length < 0 ? NULL : value, taken };
	from->data = value + taken;
	from->length -= sizeof(wire) + taken;
	return true;
}
