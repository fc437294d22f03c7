/*
 * See event.h. The sidecar has written the event, so its names have no escapes and its values are valid JSON.
 */
#include "bridge/event.h"

#include <inttypes.h>
#include <stdio.h>

#include "json/members.h"
#include "json/text.h"

/* The names of the added attributes. */
static const char *const own_names[] = {
	"inboxclaim",
	"inboxattempt",
	"inboxmaxattempts",
	"inboxreplay",
	"inboxconsumer",
};

int event_init(struct event *event, struct err *err)
{
	/* The sidecar accepts data that is nested JSON_MAX_DEPTH deep, and the event is one level around it. */
	static const struct json_limits limits = { .max_depth = JSON_DEEPEST, .any_space = true };

	*event = (struct event){ .stream = NULL };
	return json_stream_new_with(&event->stream, &limits, err);
}

void event_fini(struct event *event)
{
	json_stream_free(event->stream);
	buf_fini(&event->scratch);
	buf_fini(&event->json);
}

static bool is_own(struct bytes name)
{
	for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
		if (bytes_equal(name, bytes_of(own_names[i])))
			return true;
	}
	return false;
}

static bool is_attribute_name(struct bytes name)
{
	const char *text = name.data;

	for (size_t i = 0; i < name.length; i++) {
		if (!(text[i] >= 'a' && text[i] <= 'z') && !(text[i] >= '0' && text[i] <= '9'))
			return false;
	}
	return name.length > 0 && !bytes_equal(name, BYTES_LITERAL("data"));
}

static void add_attribute(struct event *event, struct bytes name, struct bytes text)
{
	if (event->count < EVENT_ATTRIBUTES_MAX - sizeof(own_names) / sizeof(own_names[0]) ||
		is_own(name))
		event->attributes[event->count++] = (struct event_attribute){ name, text };
}

/* Copies the member, and keeps its text if it is an attribute. */
static bool take_member(void *arg, const struct json_member *member)
{
	struct event *event = arg;
	struct bytes text = member->raw;

	if (is_own(member->name))
		return true;
	buf_add_str(&event->json, event->json.length == 1 ? "\"" : ",\"");
	buf_add(&event->json, member->name.data, member->name.length);
	buf_add_str(&event->json, "\":");
	buf_add(&event->json, member->raw.data, member->raw.length);
	if (!is_attribute_name(member->name))
		return true;
	switch (member->kind) {
	case JSON_STRING:
		/* Half a surrogate pair has no text; the JSON still has it. */
		if (json_text_of(member->raw, &event->scratch, &text, NULL) != 0)
			return true;
		break;
	case JSON_NUMBER:
	case JSON_BOOLEAN:
		break;
	default:
		return true;
	}
	add_attribute(event, member->name, text);
	return true;
}

/* Adds an attribute of the delivery, `quote` for a string in JSON. Its text is kept in `scratch`, which has room for it.
 */
static void add_own(struct event *event, size_t which, const char *text, const char *quote)
{
	const size_t start = event->scratch.length;
	const size_t length = strlen(text);

	buf_add(&event->scratch, text, length);
	buf_addf(&event->json, ",\"%s\":", own_names[which]);
	if (*quote == '\0')
		buf_add_str(&event->json, text);
	else
		json_add_any_string(&event->json, text, SIZE_MAX);
	if (event->scratch.broken)
		return;
	add_attribute(event, bytes_of(own_names[which]),
		(struct bytes){ event->scratch.data + start, length });
}

static void add_delivery(struct event *event, const struct inbox_delivery *delivery)
{
	const char *consumer = inbox_delivery_consumer(delivery);
	char number[32];

	event->own = event->count;
	add_own(event, 0, inbox_delivery_claim(delivery), "\"");
	(void)snprintf(number, sizeof(number), "%d", inbox_delivery_attempt(delivery));
	add_own(event, 1, number, "");
	(void)snprintf(number, sizeof(number), "%d", inbox_delivery_max_attempts(delivery));
	add_own(event, 2, number, "");
	add_own(event, 3, inbox_delivery_replay(delivery) ? "true" : "false", "");
	if (*consumer != '\0')
		add_own(event, 4, consumer, "\"");
}

int event_read(struct event *event, const struct inbox_delivery *delivery, struct err *err)
{
	const struct inbox_bytes raw = inbox_delivery_event(delivery);
	const struct inbox_bytes data = inbox_delivery_data(delivery);
	const size_t own_texts = strlen(inbox_delivery_claim(delivery)) +
				 strlen(inbox_delivery_consumer(delivery)) + 64;
	int r;

	event->count = 0;
	event->data = (struct bytes){ data.data, data.length };
	event->data_is_json = inbox_delivery_data_is_json(delivery);
	buf_reset(&event->scratch);
	buf_reset(&event->json);
	/* A decoded text is not longer than its JSON, so the buffer never moves and texts in it stay where they are. */
	if (buf_reserve(&event->scratch, raw.length + own_texts) == NULL)
		return err_memory(err);
	buf_add_char(&event->json, '{');
	r = json_read_members(
		event->stream, (struct bytes){ raw.data, raw.length }, take_member, event, err);
	if (r != 0)
		return r < 0 ? r
			     : err_set(err, FAULT_INTERNAL,
				       "the event of a delivery is not a JSON object");
	add_delivery(event, delivery);
	buf_add_char(&event->json, '}');
	return buf_ok(&event->json) && buf_ok(&event->scratch) ? 0 : err_memory(err);
}

struct bytes event_attribute(const struct event *event, const char *name)
{
	for (size_t i = 0; i < event->count; i++) {
		if (bytes_equal(event->attributes[i].name, bytes_of(name)))
			return event->attributes[i].text;
	}
	return (struct bytes){ NULL, 0 };
}
