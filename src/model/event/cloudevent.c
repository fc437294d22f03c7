/*
 * See cloudevent.h. What is strict here is strict on purpose: an envelope with two ids, or with a name that hides
 * behind an escape, could be one message for identity.c and another one for the reader in a handler.
 */
#include "model/event/cloudevent.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "json/members.h"
#include "json/text.h"

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

/* --- Rules of attributes ----------------------------------------------------------------------- */

static bool is_specversion(struct bytes text)
{
	return bytes_equal(text, bytes_of("1.0"));
}

/* The text has the form, in which 0 stands for a digit. */
static bool has_form(const char *text, size_t length, const char *form)
{
	if (length != strlen(form))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return false;
	}
	return true;
}

static int two_digits(const char *text)
{
	return (text[0] - '0') * 10 + text[1] - '0';
}

static bool is_date(const char *text)
{
	static const char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	int century = two_digits(text);
	int year = two_digits(text + 2);
	int month = two_digits(text + 5);
	int day = two_digits(text + 8);
	bool leap = year != 0 ? year % 4 == 0 : century % 4 == 0;

	return century + year > 0 && month >= 1 && month <= 12 && day >= 1 &&
	       day <= days[month - 1] + (leap && month == 2);
}

static bool is_offset(const char *text, size_t length)
{
	return (length == 1 && text[0] == 'Z') ||
	       ((has_form(text, length, "+00:00") || has_form(text, length, "-00:00")) &&
		       two_digits(text + 1) * 60 + two_digits(text + 4) <= 18 * 60 &&
		       two_digits(text + 4) < 60);
}

static bool is_time(struct bytes text)
{
	static const char form[] = "0000-00-00T00:00:00";
	const char *at = text.data;
	size_t length = sizeof(form) - 1;
	size_t decimals = 0;

	if (text.length < length || !has_form(at, length, form) || !is_date(at) ||
		two_digits(at + 11) > 23 || two_digits(at + 14) > 59 || two_digits(at + 17) > 59)
		return false;
	if (length < text.length && at[length] == '.') {
		length++;
		while (length < text.length && at[length] >= '0' && at[length] <= '9') {
			length++;
			decimals++;
		}
		if (decimals < 1 || decimals > 9)
			return false;
	}
	return is_offset(at + length, text.length - length);
}

static bool is_one_of(char c, const char *others)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr(others, c) != NULL);
}

/* How many bytes at the start are letters, digits or one of the others. */
static size_t span(struct bytes text, size_t from, const char *others)
{
	const char *at = text.data;
	size_t end = from;

	while (end < text.length && is_one_of(at[end], others))
		end++;
	return end - from;
}

/* RFC 3986: a scheme, and at least one character behind the colon. */
static bool is_uri(struct bytes text)
{
	const char *at = text.data;
	size_t scheme = span(text, 0, "+-.");

	if (scheme == 0 || (at[0] >= '0' && at[0] <= '9') || scheme + 1 >= text.length ||
		at[scheme] != ':')
		return false;
	for (size_t i = scheme + 1; i < text.length; i++) {
		if (!is_one_of(at[i], "-._~:/?#[]@!$&'()*+,;=%"))
			return false;
		if (at[i] == '%' && (i + 2 >= text.length ||
					    strchr("0123456789abcdefABCDEF", at[i + 1]) == NULL ||
					    strchr("0123456789abcdefABCDEF", at[i + 2]) == NULL))
			return false;
	}
	return true;
}

/* RFC 2045, without the form of parameters. */
static bool is_media_type(struct bytes text)
{
	static const char others[] = "!#$%&'*+-.^_`{|}~";
	const char *at = text.data;
	size_t type = span(text, 0, others);
	size_t subtype = type + 1 < text.length ? span(text, type + 1, others) : 0;
	size_t end = type + 1 + subtype;

	return type > 0 && subtype > 0 && at[type] == '/' &&
	       (end == text.length || at[end] == ';' || at[end] == ' ');
}

bool cloudevent_is_valid(struct bytes name, struct bytes value)
{
	static const struct {
		const char *name;
		bool (*is_right)(struct bytes text);
	} rules[] = {
		{ "specversion", is_specversion },
		{ "time", is_time },
		{ "dataschema", is_uri },
		{ "datacontenttype", is_media_type },
	};
	CLEANUP(buf_fini) struct buf scratch = BUF_INIT;
	struct err err = ERR_INIT;
	struct bytes text;
	size_t i = 0;

	while (i < sizeof(rules) / sizeof(rules[0]) && !bytes_equal(name, bytes_of(rules[i].name)))
		i++;
	/* The rules are about the text: many libraries escape / or & or +. */
	return i == sizeof(rules) / sizeof(rules[0]) ||
	       (json_text_of(value, &scratch, &text, &err) == 0 && rules[i].is_right(text));
}

/* --- The envelope ------------------------------------------------------------------------------ */

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
