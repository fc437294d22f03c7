/*
 * The parameters of one statement in PostgreSQL's binary format. A value is encoded when it is
 * added, so that no copy exists except libpq's own.
 *
 * Add the parameters in order; params_reset() allows reuse. When memory runs out the set becomes
 * invalid: params_ok() returns false, and sending it is FAULT_MEMORY. Pure. One thread.
 */
#ifndef STORE_PG_PARAMS_H
#define STORE_PG_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

#define PARAMS_MAX 28

struct params {
	int count;
	unsigned types[PARAMS_MAX];
	struct buf values[PARAMS_MAX];
	bool nulls[PARAMS_MAX];
	int lengths[PARAMS_MAX]; /* number of elements of an array parameter */
};

#define PARAMS_INIT                                                                                \
	{                                                                                          \
		.count = 0                                                                         \
	}

void params_init(struct params *params);
void params_reset(struct params *params); /* keeps small buffers, frees those above 4 MiB */
void params_fini(struct params *params);
bool params_ok(const struct params *params);

void params_int(struct params *params, int32_t value);
void params_bigint(struct params *params, int64_t value);
void params_bool(struct params *params, bool value);
void params_text(struct params *params, const char *value);   /* NULL = NULL */
void params_bytea(struct params *params, struct bytes value); /* missing = NULL */
void params_jsonb(struct params *params, struct bytes json);  /* missing = NULL */

/* Opens an array parameter and returns its number. The array_* functions take that number, in any
 * order. */
enum array_type {
	ARRAY_TEXT,
	ARRAY_INT,
	ARRAY_BIGINT,
	ARRAY_SMALLINT,
	ARRAY_BOOL,
	ARRAY_BYTEA,
	ARRAY_JSONB,
	ARRAY_TIMESTAMP
};
int params_array(struct params *params, enum array_type type);
void array_null(struct params *params, int array);
void array_text(struct params *params, int array, const char *value); /* NULL = NULL */
void array_int(struct params *params, int array, int32_t value);
void array_bigint(struct params *params, int array, int64_t value);
void array_smallint(struct params *params, int array, int16_t value);
void array_bool(struct params *params, int array, bool value);
void array_bytes(
	struct params *params, int array, struct bytes value); /* bytea, jsonb; missing = NULL */
/* Milliseconds since 1970; -1 = NULL. A value outside the range of timestamptz becomes the nearest
 * bound. */
void array_timestamp(struct params *params, int array, int64_t unix_ms);
/*
 * The time of a record in inbox_rejects and inbox_conflicts, where coordinates are unique: from the second generation on
 * as many microseconds later as there are earlier ones. Kafka's timestamps have milliseconds. Otherwise a record of another
 * generation with the same coordinates would count as this one. A further column would need another unique index,
 * with which the ON CONFLICT of older sidecars fails (docs/adr/0037).
 */
void array_coordinate_time(struct params *params, int array, int64_t unix_ms, int32_t generation);

#endif
