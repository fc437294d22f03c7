/*
 * JSON pointers (RFC 6901). They are compiled once, and the values of several pointers are found in one pass over a
 * text. Pure. Any thread can use a compiled pointer.
 */
#ifndef JSON_POINTER_H
#define JSON_POINTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "json/stream.h"

#define JSON_POINTER_MAX 64 /* pointers of one search */

enum { JSON_POINTER_MALFORMED = 1 };

struct json_step {
	char *name; /* unescaped */
	size_t length;
	int64_t index; /* the same as an array index; -1 when it is none */
};

struct json_pointer {
	struct json_step *steps;
	size_t count;
};

/* JSON_POINTER_MALFORMED: not empty and not beginning with '/', or a '~' without 0 or 1 behind it.
 * FAULT_MEMORY. The struct may be given to json_pointer_fini() whatever the result. */
int json_pointer_init(struct json_pointer *pointer, const char *text, struct err *err);
void json_pointer_fini(struct json_pointer *pointer);

struct json_value {
	enum json_kind kind; /* JSON_STRING, JSON_NUMBER or JSON_BOOLEAN */
	struct bytes raw;    /* as written, borrowed from the text; absent = not found */
};

/* One search: the pointers, and the values that were found. */
struct json_search {
	const struct json_pointer *pointers;
	size_t count; /* at most JSON_POINTER_MAX */
	struct json_value *values;
	struct buf *scratch; /* for names with escapes; emptied */
};

/* Sets values[i] for pointers[i]. Null, objects and arrays count as not found. Of members with the same name the
 * first one counts. If the text is not one whole JSON value, no value is found. FAULT_MEMORY. */
int json_find(struct json_stream *stream, struct bytes text, const struct json_search *search,
	struct err *err);

#endif
