/*
 * See cloudevent.h. What is strict here is strict on purpose: an envelope with two ids, or with a name that hides
 * behind an escape, could be one message for identity.c and another one for the reader in a handler.
 */
#include "model/event/cloudevent.h"

#include <string.h>
#include <strings.h>

#include "json/members.h"

static bool begins_with(struct bytes text, const char *start)
{
	size_t length = strlen(start);

	return text.data != NULL && text.length >= length &&
	       strncasecmp(text.data, start, length) == 0;
}

bool cloudevent_is_content_type(struct bytes name)
{
	return name.length == strlen("content-type") && begins_with(name, "content-type");
}

bool cloudevent_is_structured(struct bytes content_type)
{
	return begins_with(content_type, "application/cloudevents") &&
	       !begins_with(content_type, "application/cloudevents-batch");
}

static bool visit_attribute(void *arg, const struct json_member *member)
{
	struct envelope *envelope = arg;
	const struct {
		const char *name;
		struct bytes *value;
	} wanted[] = {
		{ "id", &envelope->id },
		{ "source", &envelope->source },
		{ "type", &envelope->type },
	};

	if (memchr(member->name.data, '\\', member->name.length) != NULL)
		return false;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (!bytes_equal(member->name, bytes_of(wanted[i].name)) ||
			member->kind == JSON_NULL)
			continue;
		if (member->kind != JSON_STRING || wanted[i].value->data != NULL)
			return false;
		*wanted[i].value = member->raw;
	}
	return true;
}

int cloudevent_read_envelope(
	struct json_stream *stream, struct bytes payload, struct envelope *out, struct err *err)
{
	int r;

	*out = (struct envelope){ .id = { NULL, 0 } };
	r = json_read_members(stream, payload, visit_attribute, out, err);
	if (r < 0)
		return r;
	return r != 0 || out->id.data == NULL ? JSON_BROKEN : 0;
}
