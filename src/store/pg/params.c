/*
 * Implements params.h.
 */
#include "store/pg/params.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "store/pg/types.h"

#define KEPT_BYTES       (4U << 20)

/* PostgreSQL counts microseconds from 2000-01-01. Its timestamps end in the year 294276. */
#define EPOCH_2000_MS    946684800000LL
#define US_PER_MS        1000
#define TIMESTAMP_MIN_US (-211813488000000000LL)
#define TIMESTAMP_MAX_US 9223371331199999999LL

/* The array header: dimensions, has-null flag, element type, then length and lower bound. */
#define LENGTH_AT        12

static const struct {
	unsigned array;
	unsigned element;
} array_types[] = {
	[ARRAY_TEXT] = { TYPE_TEXT_ARRAY, TYPE_TEXT },
	[ARRAY_INT] = { TYPE_INT4_ARRAY, TYPE_INT4 },
	[ARRAY_BIGINT] = { TYPE_INT8_ARRAY, TYPE_INT8 },
	[ARRAY_SMALLINT] = { TYPE_INT2_ARRAY, TYPE_INT2 },
	[ARRAY_BOOL] = { TYPE_BOOL_ARRAY, TYPE_BOOL },
	[ARRAY_BYTEA] = { TYPE_BYTEA_ARRAY, TYPE_BYTEA },
	[ARRAY_JSONB] = { TYPE_JSONB_ARRAY, TYPE_JSONB },
	[ARRAY_TIMESTAMP] = { TYPE_TIMESTAMPTZ_ARRAY, TYPE_TIMESTAMPTZ },
};

void params_init(struct params *params)
{
	memset(params, 0, sizeof(*params));
}

void params_reset(struct params *params)
{
	for (int i = 0; i < params->count; i++) {
		if (params->values[i].capacity > KEPT_BYTES)
			buf_fini(&params->values[i]);
		buf_reset(&params->values[i]);
		params->nulls[i] = false;
		params->lengths[i] = 0;
	}
	params->count = 0;
}

void params_fini(struct params *params)
{
	for (int i = 0; i < PARAMS_MAX; i++)
		buf_fini(&params->values[i]);
	params_init(params);
}

bool params_ok(const struct params *params)
{
	for (int i = 0; i < params->count; i++) {
		if (!buf_ok(&params->values[i]))
			return false;
	}
	return true;
}

static void put32(struct buf *buf, uint32_t value)
{
	uint32_t wire = htobe32(value);

	buf_add(buf, &wire, sizeof(wire));
}

static void put64(struct buf *buf, uint64_t value)
{
	uint64_t wire = htobe64(value);

	buf_add(buf, &wire, sizeof(wire));
}

static struct buf *next_value(struct params *params, unsigned type)
{
	int i = params->count;

	assert(i < PARAMS_MAX);
	params->types[i] = type;
	params->count++;
	return &params->values[i];
}

void params_int(struct params *params, int32_t value)
{
	put32(next_value(params, TYPE_INT4), (uint32_t)value);
}

void params_bigint(struct params *params, int64_t value)
{
	put64(next_value(params, TYPE_INT8), (uint64_t)value);
}

void params_bool(struct params *params, bool value)
{
	buf_add_char(next_value(params, TYPE_BOOL), value ? 1 : 0);
}

static void params_run(struct params *params, unsigned type, struct bytes value)
{
	struct buf *buf = next_value(params, type);

	if (value.data == NULL) {
		params->nulls[params->count - 1] = true;
		return;
	}
	if (type == TYPE_JSONB)
		buf_add_char(buf, JSONB_VERSION);
	buf_add(buf, value.data, value.length);
}

void params_text(struct params *params, const char *value)
{
	params_run(params, TYPE_TEXT, bytes_of(value));
}

void params_bytea(struct params *params, struct bytes value)
{
	params_run(params, TYPE_BYTEA, value);
}

void params_jsonb(struct params *params, struct bytes json)
{
	params_run(params, TYPE_JSONB, json);
}

int params_array(struct params *params, enum array_type type)
{
	struct buf *buf = next_value(params, array_types[type].array);

	put32(buf, 1); /* one dimension, also for an empty array; the server accepts that */
	put32(buf, 1); /* may contain NULLs; the server checks */
	put32(buf, array_types[type].element);
	put32(buf, 0); /* the length, raised with each element */
	put32(buf, 1);
	return params->count - 1;
}

/* Begins an element of `size` bytes, -1 = NULL. */
static struct buf *element(struct params *params, int array, int64_t size)
{
	struct buf *buf = &params->values[array];
	uint32_t length = htobe32((uint32_t)++params->lengths[array]);

	put32(buf, (uint32_t)size);
	if (buf_ok(buf))
		memcpy(buf->data + LENGTH_AT, &length, sizeof(length));
	return buf;
}

void array_null(struct params *params, int array)
{
	(void)element(params, array, -1);
}

void array_text(struct params *params, int array, const char *value)
{
	array_bytes(params, array, bytes_of(value));
}

void array_int(struct params *params, int array, int32_t value)
{
	put32(element(params, array, sizeof(value)), (uint32_t)value);
}

void array_bigint(struct params *params, int array, int64_t value)
{
	put64(element(params, array, sizeof(value)), (uint64_t)value);
}

void array_smallint(struct params *params, int array, int16_t value)
{
	uint16_t wire = htobe16((uint16_t)value);

	buf_add(element(params, array, sizeof(value)), &wire, sizeof(wire));
}

void array_bool(struct params *params, int array, bool value)
{
	buf_add_char(element(params, array, 1), value ? 1 : 0);
}

void array_bytes(struct params *params, int array, struct bytes value)
{
	bool jsonb = params->types[array] == TYPE_JSONB_ARRAY;
	struct buf *buf;

	if (value.data == NULL) {
		array_null(params, array);
		return;
	}
	buf = element(params, array, (int64_t)value.length + (jsonb ? 1 : 0));
	if (jsonb)
		buf_add_char(buf, JSONB_VERSION);
	buf_add(buf, value.data, value.length);
}

static void put_timestamp(struct params *params, int array, int64_t unix_ms, int us_more)
{
	int64_t us;

	if (__builtin_sub_overflow(unix_ms, EPOCH_2000_MS, &us) ||
		__builtin_mul_overflow(us, US_PER_MS, &us) ||
		__builtin_add_overflow(us, us_more, &us))
		us = unix_ms < 0 ? TIMESTAMP_MIN_US : TIMESTAMP_MAX_US;
	if (us < TIMESTAMP_MIN_US)
		us = TIMESTAMP_MIN_US;
	if (us > TIMESTAMP_MAX_US)
		us = TIMESTAMP_MAX_US;
	array_bigint(params, array, us);
}

void array_timestamp(struct params *params, int array, int64_t unix_ms)
{
	if (unix_ms == -1)
		array_null(params, array);
	else
		put_timestamp(params, array, unix_ms, 0);
}

void array_coordinate_time(struct params *params, int array, int64_t unix_ms, int32_t generation)
{
	if (generation > 1)
		put_timestamp(params, array, unix_ms, (generation - 1) % US_PER_MS);
	else
		array_timestamp(params, array, unix_ms);
}
