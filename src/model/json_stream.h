/*
 * JSON read as a stream: yajl, made strict and given memory of its own. A text is read whole or not
 * at all: strict UTF-8, no VT or FF (yajl takes both for whitespace), one value and nothing behind
 * it, at most JSON_MAX_DEPTH containers deep. Tokens are slices of the text, so numbers keep their
 * digits and strings their escapes. Pure. One thread per stream.
 *
 * yajl does not survive a failed allocation. The memory one text can make it ask for is therefore
 * reserved before it starts (four times the text at worst, untouched pages cost nothing), and
 * running out is FAULT_MEMORY here instead of a crash there.
 */
#ifndef MODEL_JSON_STREAM_H
#define MODEL_JSON_STREAM_H

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
	int depth; /* containers around it: 0 for the text's own value */
	struct bytes
		raw; /* as written: strings and keys with quotes, containers their one bracket */
};

/* False stops the reading. */
typedef bool json_visit(void *arg, const struct json_token *token);

struct json_stream;

int json_stream_new(struct json_stream **out, struct err *err);
void json_stream_free(struct json_stream *stream);

/* Hands every token to `visit` (NULL: only validates, which is cheaper). 0: the whole text is valid.
 * JSON_BROKEN: it is not; tokens before the mistake may have been visited. JSON_STOPPED: `visit`
 * said so, nothing behind that token has been looked at but its UTF-8. FAULT_MEMORY. */
int json_stream_read(struct json_stream *stream, struct bytes text, json_visit *visit, void *arg,
	struct err *err);

/* One member of an object, its value whole. */
struct json_member {
	struct bytes name;   /* as written, without quotes: escapes are still in it */
	enum json_kind kind; /* of the value: JSON_OBJECT, JSON_ARRAY or a scalar */
	struct bytes raw;    /* the value as written */
};

typedef bool json_visit_member(void *arg, const struct json_member *member);

/* The members of the object that is the text. Results as above; JSON_BROKEN also when the text is
 * no object. */
int json_read_members(struct json_stream *stream, struct bytes text, json_visit_member *visit,
	void *arg, struct err *err);

/* The text of a string or key token: borrowed from `raw` when nothing is escaped in it, else decoded
 * behind what is in `scratch`. JSON_BROKEN when it escapes half a surrogate pair: no text has that.
 * FAULT_MEMORY. */
int json_text_of(struct bytes raw, struct buf *scratch, struct bytes *out, struct err *err);

#endif
