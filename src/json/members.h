/* The members of a JSON object, each with its complete value. Pure. One thread for each stream. */
#ifndef JSON_MEMBERS_H
#define JSON_MEMBERS_H

#include "json/stream.h"

/* One member of an object with its complete value. */
struct json_member {
	struct bytes name;   /* as written, without quotes, with its escapes */
	enum json_kind kind; /* of the value: JSON_OBJECT, JSON_ARRAY or a scalar */
	struct bytes raw;    /* the value as written */
};

typedef bool json_visit_member(void *arg, const struct json_member *member);

/* Calls `visit` for the members of the object that is the text. Results as above; JSON_BROKEN also if the text is not
 * an object. */
int json_read_members(struct json_stream *stream, struct bytes text, json_visit_member *visit,
	void *arg, struct err *err);

#endif
