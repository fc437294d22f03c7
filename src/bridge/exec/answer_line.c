/* See answer_line.h. */
#include "bridge/exec/answer_line.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/text/numbers.h"
#include "base/text/utf8.h"
#include "json/members.h"
#include "json/text.h"

#define DELAY_MAX_MS 31622400000LL /* 366 days; the protocol's own limit */

#define QUOTED_BYTES 80 /* of a wrong line */

/* An answer while it is read. */
struct reading {
	struct bridge_verdict *verdict;
	struct bytes event_id;
	struct buf scratch;
	bool has_status;
	bool no_memory;
	const char *problem; /* NULL = none */
};

static void reading_fini(struct reading *reading)
{
	buf_fini(&reading->scratch);
}

/* The text of a string. False: it is not one. */
static bool text_of(struct reading *reading, const struct json_member *member, struct bytes *out)
{
	int r;

	if (member->kind != JSON_STRING)
		return false;
	buf_reset(&reading->scratch);
	r = json_text_of(member->raw, &reading->scratch, out, NULL);
	reading->no_memory = reading->no_memory || r < 0;
	return r == 0;
}

static const char *set_status(struct reading *reading, const struct json_member *member)
{
	struct bytes text;

	if (!text_of(reading, member, &text) ||
		!bridge_status_parse(text, &reading->verdict->status))
		return "the status must be " BRIDGE_STATUS_LIST;
	reading->has_status = true;
	return NULL;
}

static const char *set_delay(struct reading *reading, const struct json_member *member)
{
	char digits[DIGITS_MAX + 1];
	char *end = NULL;
	int64_t delay_ms = -1;

	if (member->kind == JSON_NULL)
		return NULL;
	if (member->kind == JSON_NUMBER && member->raw.length < sizeof(digits)) {
		memcpy(digits, member->raw.data, member->raw.length);
		digits[member->raw.length] = '\0';
		delay_ms = strtoll(digits, &end, 10);
		delay_ms = *end == '\0' ? delay_ms : -1;
	}
	if (delay_ms < 0 || delay_ms > DELAY_MAX_MS)
		return "delay_ms must be a number of milliseconds, at most 366 days";
	reading->verdict->delay_ms = delay_ms;
	return NULL;
}

static const char *set_reason(struct reading *reading, const struct json_member *member)
{
	struct bytes text;

	if (member->kind == JSON_NULL)
		return NULL;
	if (!text_of(reading, member, &text))
		return "the reason must be a text";
	bridge_text_put(reading->verdict->reason, sizeof(reading->verdict->reason), text);
	return NULL;
}

static const char *set_code(struct reading *reading, const struct json_member *member)
{
	struct bytes text;

	if (member->kind == JSON_NULL)
		return NULL;
	if (!text_of(reading, member, &text))
		return "the code must be a text";
	bridge_text_put(reading->verdict->code, sizeof(reading->verdict->code), text);
	return NULL;
}

static const char *set_result(struct reading *reading, const struct json_member *member)
{
	reading->verdict->result = member->raw;
	return NULL;
}

static const char *check_id(struct reading *reading, const struct json_member *member)
{
	struct bytes text;

	if (!text_of(reading, member, &text) || !bytes_equal(text, reading->event_id))
		return "it has the id of another event";
	return NULL;
}

static const char *set_emit(struct reading *reading, const struct json_member *member)
{
	if (member->kind == JSON_NULL)
		return NULL;
	if (member->kind != JSON_ARRAY)
		return "emit must be an array of events";
	reading->verdict->emit = member->raw;
	return NULL;
}

static const struct {
	const char *name;
	const char *(*set)(struct reading *reading, const struct json_member *member);
} members[] = {
	{ "status", set_status },
	{ "delay_ms", set_delay },
	{ "reason", set_reason },
	{ "code", set_code },
	{ "result", set_result },
	{ "id", check_id },
	{ "emit", set_emit },
};

static bool take_member(void *arg, const struct json_member *member)
{
	struct reading *reading = arg;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (bytes_equal(member->name, bytes_of(members[i].name)))
			reading->problem = members[i].set(reading, member);
	}
	return reading->problem == NULL;
}

static int read_json(
	struct json_stream *stream, struct bytes line, struct reading *reading, struct err *err)
{
	const int r = json_read_members(stream, line, take_member, reading, err);

	if (r < 0 || reading->no_memory)
		return err_memory(err);
	if (r == JSON_BROKEN)
		reading->problem = "it is not valid JSON";
	else if (reading->problem == NULL && !reading->has_status)
		reading->problem = "it has no status";
	else if (reading->problem == NULL && reading->verdict->emit.data != NULL &&
		 reading->verdict->status != BRIDGE_DONE)
		reading->problem = "only done can have events in emit";
	return 0;
}

static size_t word_length(struct bytes line)
{
	const char *text = line.data;
	size_t length = 0;

	while (length < line.length && text[length] != ' ' && text[length] != '\t')
		length++;
	return length;
}

static void read_words(struct bytes line, struct reading *reading)
{
	const size_t length = word_length(line);
	struct bytes rest = { (const char *)line.data + length, line.length - length };
	struct bridge_verdict *verdict = reading->verdict;

	while (rest.length > 0 && *(const unsigned char *)rest.data <= ' ')
		rest = (struct bytes){ (const char *)rest.data + 1, rest.length - 1 };
	if (!bridge_status_parse((struct bytes){ line.data, length }, &verdict->status)) {
		reading->problem = "it is neither JSON nor begins with " BRIDGE_STATUS_LIST;
		return;
	}
	bridge_text_put(verdict->reason, sizeof(verdict->reason), rest);
	if (verdict->status != BRIDGE_SNOOZE || rest.length == 0)
		return;
	if (!duration_read(verdict->reason, &verdict->delay_ms) || verdict->delay_ms > DELAY_MAX_MS)
		reading->problem =
			"the text behind snooze is not a duration such as 5s, at most 366 days";
	verdict->reason[0] = '\0'; /* it is the delay */
}

static struct bytes without_margin(struct bytes line)
{
	const char *text = line.data;

	while (line.length > 0 && (text[line.length - 1] == '\r' || text[line.length - 1] == ' '))
		line.length--;
	return line;
}

/* The beginning of the line shows what it is: mostly a text that the program prints for another purpose. */
static void set_reason_of(struct bridge_verdict *verdict, const char *problem, struct bytes line)
{
	char begin[QUOTED_BYTES + 1] = "";
	bool text = line.length > 0 && utf8_is_valid(line);

	if (text)
		bridge_text_put(begin, sizeof(begin), line);
	(void)snprintf(verdict->reason, sizeof(verdict->reason),
		"the answer of the command is not a verdict: %s%s%s%s", problem,
		text ? "; the line begins with: " : "", begin,
		strlen(begin) < line.length && text ? "…" : "");
}

int answer_line_read(struct json_stream *stream, struct bytes line, struct bytes event_id,
	struct bridge_verdict *out, struct err *err)
{
	CLEANUP(reading_fini) struct reading reading = { .verdict = out, .event_id = event_id };
	int r = 0;

	*out = (struct bridge_verdict){ .delay_ms = -1 };
	line = without_margin(line);
	if (line.length == 0)
		reading.problem = "it is empty";
	else if (*(const char *)line.data == '{')
		r = read_json(stream, line, &reading, err);
	else if (!utf8_is_valid(line))
		reading.problem = "it is not UTF-8";
	else
		read_words(line, &reading);
	if (r < 0 || reading.problem == NULL)
		return r;
	*out = (struct bridge_verdict){
		.status = BRIDGE_RETRY, .delay_ms = -1, .code = "PROTOCOL"
	};
	set_reason_of(out, reading.problem, line);
	return ANSWER_LINE_WRONG;
}
