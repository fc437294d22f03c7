/*
 * Stores the values of members in the draft. Texts are copied into the memory of the line. A setter returns nothing:
 * a wrong value becomes a problem in the draft, and without memory line_alloc() leaves by longjmp. The text of a
 * problem names the member by its path and says what it must be. Only the first problem of each scope is kept.
 */
#include "dispatch/protocol/protocol_setters.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "dispatch/protocol/protocol_storable.h"

/* The path of each context, in front of the names of its members. */
static const char *const context_paths[] = {
	[NOWHERE] = "",
	[ROOT] = "",
	[PARAMS] = "params.",
	[PROTOCOLS] = "params.protocol[]",
	[SUBSCRIBE] = "params.subscribe[]",
	[SUB] = "params.subscribe[].",
	[TYPES] = "params.subscribe[].types[]",
	[BATCH] = "params.batch.",
	[RESULT] = "result.",
	[ENTRIES] = "result.entries[]",
	[ENTRY] = "result.entries[].",
	[ERROR] = "error.",
	[ERROR_DATA] = "error.data.",
};

void set_problem(struct draft_writer *writer, const struct member *member, const char *format, ...)
{
	char *text = line_alloc(writer->memory, PROTOCOL_WORDS);
	char what[128];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	protocol_words(text, "%s%s %s", context_paths[member->context],
		member->key == NULL ? "" : member->key, what);
	for (int owner = 0; owner < SCOPES; owner++) {
		if ((member->scopes & 1u << owner) != 0 && writer->draft->problems[owner] == NULL)
			writer->draft->problems[owner] = text;
	}
	if ((member->scopes & 1u << SCOPE_ANSWER) != 0 && writer->verdict->problem == NULL)
		writer->verdict->problem = text;
}

/* The field that a general setter writes. */
static void *field_of(struct draft_writer *writer, const struct member *member)
{
	char *base = (member->scopes & 1u << SCOPE_ANSWER) != 0 ? (char *)writer->verdict
								: (char *)writer->draft;

	return base + member->field;
}

/* A text that is only compared with known ones. A text that contains a NUL is kept as it was written (with its
 * escape), so that it does not equal a known text that ends at the NUL. */
static const char *plain(struct draft_writer *writer, const struct value *value)
{
	bool as_written = value->kind != KIND_STRING ||
			  memchr(value->text.data, '\0', value->text.length) != NULL;

	return line_copy(writer->memory, as_written ? value->raw : value->text);
}

void set_version(
	struct draft_writer *writer, const struct member *member, const struct value *value)
{
	(void)member;
	writer->draft->version_named = bytes_equal(value->text, bytes_of("2.0"));
}

void set_id(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	struct draft *draft = writer->draft;

	(void)member;
	draft->has_id = true;
	draft->id_is_null = value->kind == KIND_NULL;
	draft->id = (struct bytes){ line_copy(writer->memory, value->raw), value->raw.length };
	draft->id_text = plain(writer, value);
}

void set_plain(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	*(const char **)field_of(writer, member) = plain(writer, value);
}

void set_result(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	(void)member;
	writer->draft->has_result = value->kind != KIND_NULL;
	writer->draft->result_is_null = value->kind == KIND_NULL;
}

/* Sets a flag: the member is there. */
void set_presence(
	struct draft_writer *writer, const struct member *member, const struct value *value)
{
	(void)value;
	*(bool *)((char *)writer->draft + member->field) = true;
}

/* Any JSON number as an integer: without its fraction, and limited to the range of int64_t. True if it is a whole
 * number. */
static bool integer(struct draft_writer *writer, struct bytes digits, int64_t *out)
{
	const char *text = line_copy(writer->memory, digits);
	double number;

	if (strpbrk(text, ".eE") == NULL) {
		*out = strtoll(text, NULL, 10); /* saturates */
		return true;
	}
	number = strtod(text, NULL);
	if (number >= 9e18)
		*out = INT64_MAX;
	else if (number <= -9e18)
		*out = INT64_MIN;
	else
		*out = (int64_t)number;
	return *out == INT64_MAX || *out == INT64_MIN || (double)*out == number;
}

void set_number(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	int64_t number;
	bool whole = integer(writer, value->text, &number);

	if (!whole || number < member->min || number > member->max)
		set_problem(writer, member, "must be a whole number from %lld to %lld",
			(long long)member->min, (long long)member->max);
	else
		*(int64_t *)field_of(writer, member) = number;
}

void set_protocol(
	struct draft_writer *writer, const struct member *member, const struct value *value)
{
	int64_t number;

	(void)member;
	if (integer(writer, value->text, &number) && number == 1)
		writer->draft->protocol_has_ours = true;
}

/* Names end up in metrics, logs and SQL: no control characters, nothing that is not text. */
static bool is_name(struct bytes text, const struct member *member)
{
	const unsigned char *bytes = text.data;

	if ((int64_t)text.length < member->min || (int64_t)text.length > member->max)
		return false;
	for (size_t i = 0; i < text.length; i++) {
		if (bytes[i] < ' ' || bytes[i] == 0x7f)
			return false;
	}
	return utf8_is_valid(text);
}

/* The name's copy, or NULL after a complaint. */
static const char *name_of(
	struct draft_writer *writer, const struct member *member, const struct value *value)
{
	if (is_name(value->text, member))
		return line_copy(writer->memory, value->text);
	set_problem(writer, member, "must have %lld to %lld bytes and no control characters",
		(long long)member->min, (long long)member->max);
	return NULL;
}

void set_name(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	*(const char **)field_of(writer, member) = name_of(writer, member, value);
}

void set_topic(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	const char *topic = name_of(writer, member, value);

	if (topic == NULL || strcmp(topic, "*") == 0)
		return;
	if (strchr(topic, '*') != NULL)
		set_problem(writer, member, "must be a topic's whole name: patterns are for types");
	else
		writer->draft->sub_topic = topic;
}

void set_sub(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	(void)member;
	(void)value;
	writer->draft->sub_first = writer->draft->hello.subscribe_count;
	writer->draft->sub_topic = NULL;
}

static void *grown(struct line_memory *memory, void *items, size_t *capacity, size_t size)
{
	*capacity = *capacity == 0 ? 16 : *capacity * 2;
	return line_realloc(memory, items, *capacity * size);
}

static void add_sub(struct draft_writer *writer, const struct member *member, const char *type)
{
	struct draft *draft = writer->draft;

	if (draft->hello.subscribe_count == PROTOCOL_MAX_SUBS) {
		set_problem(
			writer, member, "would make more than %d subscriptions", PROTOCOL_MAX_SUBS);
		return;
	}
	if (draft->hello.subscribe_count == draft->sub_capacity)
		draft->subs = grown(
			writer->memory, draft->subs, &draft->sub_capacity, sizeof(*draft->subs));
	draft->subs[draft->hello.subscribe_count++] = (struct subscription){ .type = type };
}

void set_type(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	const char *type = name_of(writer, member, value);

	if (type != NULL)
		add_sub(writer, member, strcmp(type, "*") == 0 ? NULL : type);
}

void set_entry(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	struct draft *draft = writer->draft;

	(void)value;
	if (draft->entry_count == PROTOCOL_MAX_BATCH) {
		set_problem(writer, member, "are more than the %d of the largest batch",
			PROTOCOL_MAX_BATCH);
		draft->entry_count = 0;
	}
	if (draft->entry_count == draft->entry_capacity)
		draft->entries = grown(writer->memory, draft->entries, &draft->entry_capacity,
			sizeof(*draft->entries));
	writer->verdict = &draft->entries[draft->entry_count++];
	*writer->verdict = (struct draft_verdict){ .delay_ms = -1 };
}

void set_entry_id(
	struct draft_writer *writer, const struct member *member, const struct value *value)
{
	(void)member;
	writer->verdict->entry =
		(struct bytes){ line_copy(writer->memory, value->text), value->text.length };
}

void set_delay(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	int64_t delay;

	(void)integer(writer, value->text, &delay);
	if (delay < 0)
		set_problem(writer, member, "must not be negative");
	else
		writer->verdict->delay_ms =
			delay > PROTOCOL_MAX_DELAY_MS ? PROTOCOL_MAX_DELAY_MS : delay;
}

/* The note "NAME not stored: it holds …", which is stored instead of the value. */
static const char *not_stored(
	struct draft_writer *writer, const struct member *member, const char *why)
{
	char *note = line_alloc(writer->memory, 192);

	(void)snprintf(note, 192, "%s not stored: %s", member->key, why);
	if (writer->verdict->note == NULL)
		writer->verdict->note = note;
	return note;
}

void set_words(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	const char *why = text_refusal(value->text);
	struct bytes text = why == NULL ? value->text : bytes_of(not_stored(writer, member, why));

	text.length = utf8_fit(text.data, text.length, (size_t)member->max);
	text.data = line_copy(writer->memory, text);
	*(struct bytes *)field_of(writer, member) = text;
}

void set_stored(struct draft_writer *writer, const struct member *member, const struct value *value)
{
	const char *why = json_refusal(value->raw);
	struct bytes *result = field_of(writer, member);
	char *json;

	if (why != NULL) {
		json = line_alloc(writer->memory, 256);
		(void)snprintf(json, 256, "{\"inboxd\":\"%s\"}", not_stored(writer, member, why));
		*result = bytes_of(json);
		return;
	}
	json = line_alloc(writer->memory, value->raw.length + 1);
	/* A line feed can only be between two tokens, where a space has the same meaning. */
	for (size_t i = 0; i < value->raw.length; i++) {
		char c = ((const char *)value->raw.data)[i];

		json[i] = c == '\r' || c == '\n' ? ' ' : c;
	}
	*result = (struct bytes){ json, value->raw.length };
}

void finish_subscription(struct draft_writer *writer, const struct member *member)
{
	struct draft *draft = writer->draft;

	if (draft->hello.subscribe_count == draft->sub_first)
		add_sub(writer, member, NULL);
	for (size_t i = draft->sub_first; i < draft->hello.subscribe_count; i++)
		draft->subs[i].topic = draft->sub_topic;
}
