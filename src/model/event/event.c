/*
 * Renders the CloudEvent of a message. The members of a structured envelope are copied first; then the missing
 * members are added, in the same way for both modes. This runs for every delivery, so every piece is copied once,
 * from the message to `out`.
 */
#include "model/event/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "model/event/cloudevent.h"
#include "model/event/event_headers.h"
#include "model/event/event_members.h"
#include "json/members.h"
#include "json/stream.h"

struct event_renderer {
	struct json_stream *stream;
	struct event_headers headers;
};

static bool is_ours(enum event_member member)
{
	return member == MEMBER_KAFKATOPIC || member == MEMBER_KAFKAPARTITION ||
	       member == MEMBER_KAFKAOFFSET;
}

/* Copies a member of the envelope. Of a member that CloudEvents or inboxd defines only the first one is copied. An
 * extension that is given twice is copied twice, because its meaning is the producer's. */
static bool copy_member(void *arg, const struct json_member *from)
{
	struct rendering *rendering = arg;
	enum event_member member = event_member_of(from->name);
	struct attribute *attribute;

	if (memchr(from->name.data, '\\', from->name.length) != NULL)
		return false; /* cloudevent_read_envelope() refuses it, too */
	if (is_ours(member) || rendering->present[member])
		return true;
	if (member == MEMBER_EXTENSIONS) {
		attribute = event_headers_attribute(rendering->headers, from->name);
		if (attribute != NULL)
			attribute->used = true;
	} else if (from->kind == JSON_NULL && member != MEMBER_DATA) {
		return true; /* null means "not set" (CloudEvents JSON 1.0.2, section 2.3) */
	} else {
		rendering->present[member] = true;
	}
	event_member_begin(rendering, from->name);
	buf_add(rendering->out, from->raw.data, from->raw.length);
	return true;
}

/* 0: the payload is an envelope and was copied to `out`. JSON_BROKEN: it is not, and nothing has changed. */
static int copy_envelope(struct rendering *rendering, struct json_stream *stream, struct err *err)
{
	struct bytes payload = rendering->message->payload;
	struct bytes type = rendering->headers->content_type;
	size_t start = rendering->out->length;
	int r;

	if (payload.data == NULL || type.data == NULL ||
		!cloudevent_is_structured(
			(struct bytes){ (const char *)type.data + 1, type.length - 2 }))
		return JSON_BROKEN;
	r = json_read_members(stream, payload, copy_member, rendering, err);
	if (r != 0) {
		rendering->out->length = start;
		memset(rendering->present, 0, sizeof(rendering->present));
		for (size_t i = 0; i < rendering->headers->count; i++)
			rendering->headers->attributes[i].used = false;
		return r < 0 ? r : JSON_BROKEN;
	}
	rendering->present[MEMBER_PARTITIONKEY] |= rendering->present[MEMBER_PARTITIONKEYBASE64];
	rendering->present[MEMBER_DATACONTENTTYPE] = true; /* the header's is the envelope's own */
	rendering->present[MEMBER_DATA] = true;
	return 0;
}

static int check_data(struct rendering *rendering, struct json_stream *stream, struct err *err)
{
	int r = json_stream_read(stream, rendering->message->payload, NULL, NULL, err);

	rendering->data_is_json = r == 0;
	return r < 0 ? r : 0;
}

static int add_event(struct rendering *rendering, struct json_stream *stream, struct err *err)
{
	int r;

	buf_add_str(rendering->out, "\"event\":{");
	r = copy_envelope(rendering, stream, err);
	if (r == JSON_BROKEN)
		r = check_data(rendering, stream, err);
	if (r < 0)
		return r;
	event_members_add(rendering);
	buf_add_char(rendering->out, '}');
	return 0;
}

/* A line of the protocol ends at the first LF, so line breaks in the payload are replaced by spaces. In valid JSON
 * they can only be white space between tokens. Only the payload can contain them; everything else is written by
 * inboxd. */
static void flatten(struct buf *out, size_t start, struct bytes payload)
{
	static const char breaks[] = "\n\r";

	if (ascii_is_printable(payload))
		return;
	for (const char *c = breaks; *c != '\0' && buf_ok(out); c++) {
		char *at = out->data + start;
		char *end = out->data + out->length;

		while ((at = memchr(at, *c, (size_t)(end - at))) != NULL)
			*at++ = ' ';
	}
}

int event_renderer_new(struct event_renderer **out, struct err *err)
{
	struct event_renderer *renderer = calloc(1, sizeof(*renderer));
	int r;

	if (renderer == NULL)
		return err_memory(err);
	r = json_stream_new(&renderer->stream, err);
	if (r < 0) {
		event_renderer_free(renderer);
		return r;
	}
	*out = renderer;
	return 0;
}

void event_renderer_free(struct event_renderer *renderer)
{
	if (renderer == NULL)
		return;
	json_stream_free(renderer->stream);
	event_headers_fini(&renderer->headers);
	free(renderer);
}

int event_render(struct event_renderer *renderer, const struct message *message, struct buf *out,
	struct err *err)
{
	struct rendering rendering = {
		.message = message, .headers = &renderer->headers, .out = out
	};
	size_t start = out->length;
	int r = event_headers_read(&renderer->headers, renderer->stream, message->headers, err);

	if (r == 0)
		r = add_event(&rendering, renderer->stream, err);
	if (r < 0) {
		out->length = start;
		return r;
	}
	buf_add_str(out, ",\"headers\":");
	buf_add(out, renderer->headers.rest.data, renderer->headers.rest.length);
	flatten(out, start, message->payload);
	if (buf_ok(out))
		return 0;
	out->length = start;
	return err_memory(err);
}
