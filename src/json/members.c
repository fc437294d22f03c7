/*
 * See members.h. A value that is an object or array is one member, too: it is given at its closing bracket, from the
 * opening one to there.
 */
#include "json/members.h"

struct members {
	json_visit_member *visit;
	void *arg;
	struct json_member member;
	bool no_object;
};

static bool visit_in_object(void *arg, const struct json_token *token)
{
	struct members *members = arg;
	struct json_member *member = &members->member;
	const char *start = token->raw.data;

	if (token->depth == 0) {
		members->no_object = token->kind != JSON_OBJECT && token->kind != JSON_OBJECT_END;
		return !members->no_object;
	}
	if (token->depth > 1)
		return true;
	if (token->kind == JSON_KEY) {
		member->name = (struct bytes){ start + 1, token->raw.length - 2 };
		return true;
	}
	if (token->kind == JSON_OBJECT || token->kind == JSON_ARRAY) {
		member->kind = token->kind;
		member->raw.data = start;
		return true;
	}
	if (token->kind == JSON_OBJECT_END || token->kind == JSON_ARRAY_END) {
		member->raw.length = (size_t)(start + 1 - (const char *)member->raw.data);
	} else {
		member->kind = token->kind;
		member->raw = token->raw;
	}
	return members->visit(members->arg, member);
}

int json_read_members(struct json_stream *stream, struct bytes text, json_visit_member *visit,
	void *arg, struct err *err)
{
	struct members members = { .visit = visit, .arg = arg };
	int r = json_stream_read(stream, text, visit_in_object, &members, err);

	return r == JSON_STOPPED && members.no_object ? JSON_BROKEN : r;
}
