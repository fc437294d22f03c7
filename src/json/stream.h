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
#define JSON_DEEPEST   1024 /* the largest max_depth of a stream */

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
	/* As written: strings and keys with quotes, containers their one bracket. */
	struct bytes raw;
	/* Strings and keys: decoded by yajl, which replaces half a surrogate pair with "?". Borrowed until `visit`
	 * returns. Others: absent. */
	struct bytes text;
};

/* False stops the reading. */
typedef bool json_visit(void *arg, const struct json_token *token);

struct json_stream;

/* What a stream accepts. */
struct json_limits {
	int max_depth;  /* containers in each other */
	bool any_space; /* VT and FF count as white space, as yajl has it */
};

/* Strict, with JSON_MAX_DEPTH. */
int json_stream_new(struct json_stream **out, struct err *err);
int json_stream_new_with(
	struct json_stream **out, const struct json_limits *limits, struct err *err);
void json_stream_free(struct json_stream *stream);

/* Calls `visit` for every token; NULL only validates, which is faster. 0: the whole text is valid. JSON_BROKEN: it is
 * not; tokens before the mistake may have been visited. JSON_STOPPED: `visit` returned false; behind that token only
 * the UTF-8 was checked. FAULT_MEMORY. */
int json_stream_read(struct json_stream *stream, struct bytes text, json_visit *visit, void *arg,
	struct err *err);

enum json_problem { JSON_NOT_UTF8, JSON_BAD_SPACE, JSON_TOO_DEEP, JSON_SYNTAX };

/* Why the last text was JSON_BROKEN. Not set when it was only validated. */
struct json_mistake {
	enum json_problem problem;
	char words[128]; /* JSON_SYNTAX: of yajl, one line with nothing of the text in it */
	size_t at;       /* JSON_SYNTAX: the byte near which it is */
};

const struct json_mistake *json_stream_mistake(const struct json_stream *stream);

#endif
