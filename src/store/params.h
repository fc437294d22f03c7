/*
 * Parameters of one statement in PostgreSQL's binary format, encoded as they are added: there is no
 * second copy but libpq's own. Pure. One thread.
 *
 * Build in order, reuse with params_reset(). Running out of memory breaks the set: params_ok() says
 * so, and sending it is FAULT_MEMORY.
 */
#ifndef STORE_PARAMS_H
#define STORE_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

#define PARAMS_MAX 20

struct params {
	int count;
	unsigned types[PARAMS_MAX];
	struct buf values[PARAMS_MAX];
	bool nulls[PARAMS_MAX];
	int lengths[PARAMS_MAX]; /* elements of an array parameter */
};

#define PARAMS_INIT                                                                                \
	{                                                                                          \
		.count = 0                                                                         \
	}

void params_init(struct params *params);
void params_reset(struct params *params); /* keeps small buffers, frees those over 4 MiB */
void params_fini(struct params *params);
bool params_ok(const struct params *params);

void params_int(struct params *params, int32_t value);
void params_bigint(struct params *params, int64_t value);
void params_bool(struct params *params, bool value);
void params_text(struct params *params, const char *value);   /* NULL = NULL */
void params_bytea(struct params *params, struct bytes value); /* absent = NULL */
void params_jsonb(struct params *params, struct bytes json);  /* absent = NULL */

/* Opens an array parameter and returns its number, for array_* calls in any order later. */
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
	struct params *params, int array, struct bytes value); /* bytea, jsonb; absent = NULL */
/* Milliseconds since 1970; -1 = NULL; what timestamptz cannot hold is cut to its nearest. */
void array_timestamp(struct params *params, int array, int64_t unix_ms);

#endif
