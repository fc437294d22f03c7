/*
 * Reads JSON as a stream, with yajl and stricter than yajl: valid UTF-8, no VT or FF, exactly one value, at most
 * JSON_MAX_DEPTH containers deep. Tokens are parts of the text, so numbers keep their digits and strings their escapes.
 * Pure. One thread for each stream.
 *
 * yajl does not check the result of its allocator. So all memory that it can need for a text is reserved before it
 * starts: at most four times the text; pages that are not touched cost nothing. Without memory the result is
 * FAULT_MEMORY.
 */
#ifndef JSON_STREAM_H
#define JSON_STREAM_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#define JSON_MAX_DEPTH 512

enum { JSON_BROKEN = 1, JSON_STOPPED = 2 };

enum json_kind {
	JSON_OBJECT,
	JSON_OBJECT_END,
	JSON_ARRAY,
	JSON_ARRAY_END,
	JSON_KEY,
	JSON_STRING,
	JSON_NUMBER,
	JSON_BOOLEAN,
	JSON_NULL,
};

struct json_token {
	enum json_kind kind;
	int depth; /* the number of containers around it: 0 for the value of the whole text */
	struct bytes
		raw; /* as written: strings and keys with quotes, containers their one bracket */
};

/* False stops the reading. */
typedef bool json_visit(void *arg, const struct json_token *token);

struct json_stream;

int json_stream_new(struct json_stream **out, struct err *err);
void json_stream_free(struct json_stream *stream);

/* Calls `visit` for every token; NULL only validates, which is faster. 0: the whole text is valid. JSON_BROKEN: it is
 * not; tokens before the mistake may have been visited. JSON_STOPPED: `visit` returned false; behind that token only
 * the UTF-8 was checked. FAULT_MEMORY. */
int json_stream_read(struct json_stream *stream, struct bytes text, json_visit *visit, void *arg,
	struct err *err);

#endif
