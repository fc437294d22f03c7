/*
 * The JSON members that the protocol knows: a table with one rule for each, and the functions that check a value and
 * store it in the draft. json/table.h walks through a line by this table. Unknown members are passed over without
 * being stored, so a line needs memory only for the members of the protocol. A member that is given twice is refused:
 * two readers of such a line could take different values.
 *
 * A wrong value becomes a problem in the draft. Its text names the member by its path and says what it must be; only
 * the first problem of each scope is kept. Without memory, what is stored is incomplete, and the reading stops.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/utf8.h"
#include "config/sources/nearest.h"
#include "dispatch/protocol/draft.h"
#include "dispatch/protocol/storable.h"
#include "json/table.h"
#include "json/text.h"

enum place {
	NOWHERE,
	ROOT,
	PARAMS,
	PROTOCOLS,
	SUBSCRIBE,
	SUB,
	TYPES,
	BATCH,
	RESULT,
	ENTRIES,
	ENTRY,
	EMIT,
	ERROR,
	ERROR_DATA,
};

/* The path of each place, in front of the names of its members. */
static const char *const paths[] = {
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
	[EMIT] = "emit[]",
	[ERROR] = "error.",
	[ERROR_DATA] = "error.data.",
};

#define OF_LINE   (1u << SCOPE_LINE)
#define OF_HELLO  (1u << SCOPE_HELLO)
#define OF_EXTEND (1u << SCOPE_EXTEND)
#define OF_WINDOW (1u << SCOPE_WINDOW)
#define OF_LEASED (1u << SCOPE_LEASED)
#define OF_ANSWER (1u << SCOPE_ANSWER)
#define OF_PARAMS (OF_HELLO | OF_EXTEND | OF_WINDOW | OF_LEASED)

/* True when each scope of the member has a problem already. */
static bool is_known_wrong(const struct draft *draft, const struct json_rule *rule)
{
	for (int scope = 0; scope < SCOPES; scope++) {
		if ((rule->scopes & 1u << scope) != 0 && draft->problems[scope] == NULL)
			return false;
	}
	return (rule->scopes & OF_ANSWER) == 0 || draft->answer.verdict->problem != NULL;
}

/* Notes a problem of this member for all its scopes. Only the first one needs memory: a line can have millions. */
__attribute__((format(printf, 3, 4))) static void problem(
	struct draft *draft, const struct json_rule *rule, const char *format, ...)
{
	char *text = is_known_wrong(draft, rule) ? NULL : line_alloc(draft->memory, PROTOCOL_WORDS);
	char what[128];
	va_list args;

	if (text == NULL)
		return;
	va_start(args, format);
	(void)vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	protocol_words(
		text, "%s%s %s", paths[rule->place], rule->name == NULL ? "" : rule->name, what);
	for (int scope = 0; scope < SCOPES; scope++) {
		if ((rule->scopes & 1u << scope) != 0 && draft->problems[scope] == NULL)
			draft->problems[scope] = text;
	}
	if ((rule->scopes & OF_ANSWER) != 0 && draft->answer.verdict->problem == NULL)
		draft->answer.verdict->problem = text;
}

/* Where a general setter stores the value: in the verdict that is being read, or in the draft. */
static void *field_of(struct draft *draft, const struct json_rule *rule)
{
	char *base =
		(rule->scopes & OF_ANSWER) != 0 ? (char *)draft->answer.verdict : (char *)draft;

	return base + rule->field;
}

/* A text that is only compared with known ones. A text that contains a NUL is kept as it was written (with its
 * escape), so that it does not equal a known text that ends at the NUL. */
static const char *plain(struct draft *draft, const struct json_token *value)
{
	const bool as_written = value->kind != JSON_STRING ||
				memchr(value->text.data, '\0', value->text.length) != NULL;

	return line_copy(draft->memory, as_written ? value->raw : value->text);
}

static void set_plain(void *target, const struct json_rule *rule, const struct json_token *value)
{
	*(const char **)field_of(target, rule) = plain(target, value);
}

static void set_version(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;

	(void)rule;
	draft->version_named = bytes_equal(value->text, bytes_of("2.0"));
}

static void set_id(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;

	(void)rule;
	draft->has_id = true;
	draft->id_is_null = value->kind == JSON_NULL;
	draft->id = (struct bytes){ line_copy(draft->memory, value->raw), value->raw.length };
	draft->id_text = plain(draft, value);
}

static void set_result(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;

	(void)rule;
	draft->answer.has_result = value->kind != JSON_NULL;
	draft->answer.result_is_null = value->kind == JSON_NULL;
}

/* Sets a flag of the draft: the member is there. */
static void set_presence(void *target, const struct json_rule *rule, const struct json_token *value)
{
	(void)value;
	*(bool *)((char *)target + rule->field) = true;
}

/* Any JSON number as an integer: without its fraction, and limited to the range of int64_t. True if it is a whole
 * number. */
static bool integer(struct draft *draft, struct bytes digits, int64_t *out)
{
	char space[64]; /* a line can have millions of numbers */
	const char *text = space;
	double number;

	*out = 0;
	if (digits.length < sizeof(space))
		(void)snprintf(space, sizeof(space), "%.*s", (int)digits.length,
			(const char *)digits.data);
	else
		text = line_copy(draft->memory, digits);
	if (text == NULL)
		return true;
	if (strpbrk(text, ".eE") == NULL) {
		*out = strtoll(text, NULL, 10); /* saturates */
		return true;
	}
	number = strtod(text, NULL);
	/* Beyond int64_t the conversion below is undefined. */
	if (number >= 9e18)
		*out = INT64_MAX;
	else if (number <= -9e18)
		*out = INT64_MIN;
	else
		*out = (int64_t)number;
	return *out == INT64_MAX || *out == INT64_MIN || (double)*out == number;
}

/* true or false. */
static void set_flag(void *target, const struct json_rule *rule, const struct json_token *value)
{
	*(bool *)field_of(target, rule) = bytes_equal(value->raw, bytes_of("true"));
}

/* A whole number from min to max. */
static void set_number(void *target, const struct json_rule *rule, const struct json_token *value)
{
	int64_t number;
	const bool whole = integer(target, value->raw, &number);

	if (!whole || number < rule->min || number > rule->max)
		problem(target, rule, "must be a whole number from %lld to %lld",
			(long long)rule->min, (long long)rule->max);
	else
		*(int64_t *)field_of(target, rule) = number;
}

static void check_number(void *target, const struct json_rule *rule, const struct json_token *value)
{
	int64_t number;
	const bool whole = integer(target, value->raw, &number);

	if (!whole || number < rule->min || number > rule->max)
		problem(target, rule, "must be a whole number from %lld to %lld",
			(long long)rule->min, (long long)rule->max);
}

static void set_lease(void *target, const struct json_rule *rule, const struct json_token *value)
{
	((struct draft *)target)->params.lease_given = true;
	check_number(target, rule, value);
}

static void check_base64(void *target, const struct json_rule *rule, const struct json_token *value)
{
	if (!base64_is_valid(value->text))
		problem(target, rule, "must be base64, padded and without line breaks");
}

static void set_protocol(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;
	int64_t number;

	(void)rule;
	if (integer(draft, value->raw, &number) && number == 1)
		draft->params.protocol_has_ours = true;
}

/* A copy of a name of min to max bytes, or NULL after a problem. Names end up in metrics, logs and SQL: no control
 * characters, nothing that is not text. */
static const char *name_of(
	struct draft *draft, const struct json_rule *rule, const struct json_token *value)
{
	const unsigned char *bytes = value->text.data;
	const int64_t length = (int64_t)value->text.length;
	bool valid = length >= rule->min && length <= rule->max && utf8_is_valid(value->text);

	for (int64_t i = 0; valid && i < length; i++)
		valid = bytes[i] >= ' ' && bytes[i] != 0x7f;
	if (valid)
		return line_copy(draft->memory, value->text);
	problem(draft, rule, "must have %lld to %lld bytes and no control characters",
		(long long)rule->min, (long long)rule->max);
	return NULL;
}

static void set_name(void *target, const struct json_rule *rule, const struct json_token *value)
{
	*(const char **)field_of(target, rule) = name_of(target, rule, value);
}

static void set_topic(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;
	const char *topic = name_of(draft, rule, value);

	if (topic == NULL || strcmp(topic, "*") == 0)
		return;
	if (strchr(topic, '*') != NULL)
		problem(draft, rule, "must be a topic's whole name: patterns are for types");
	else
		draft->params.sub_topic = topic;
}

/* Begins a subscription. */
static void set_sub(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;

	(void)rule;
	(void)value;
	draft->params.sub_first = draft->params.hello.subscribe_count;
	draft->params.sub_topic = NULL;
}

/* The items with room for one more. NULL when out of memory. */
static void *with_room(
	struct line_memory *memory, void *items, size_t count, size_t *capacity, size_t size)
{
	void *larger;

	if (count < *capacity)
		return items;
	larger = line_alloc(memory, (*capacity == 0 ? 16 : *capacity * 2) * size);
	if (larger == NULL)
		return NULL;
	if (count > 0)
		memcpy(larger, items, count * size);
	*capacity = *capacity == 0 ? 16 : *capacity * 2;
	return larger;
}

static void add_sub(struct draft *draft, const struct json_rule *rule, const char *type)
{
	struct draft_params *params = &draft->params;
	size_t count = params->hello.subscribe_count;
	struct subscription *subs;

	if (count == PROTOCOL_MAX_SUBS) {
		problem(draft, rule, "would make more than %d subscriptions", PROTOCOL_MAX_SUBS);
		return;
	}
	subs = with_room(draft->memory, params->subs, count, &params->sub_capacity, sizeof(*subs));
	if (subs == NULL)
		return;
	subs[count] = (struct subscription){ .type = type };
	params->subs = subs;
	params->hello.subscribe_count++;
}

static void set_type(void *target, const struct json_rule *rule, const struct json_token *value)
{
	const char *type;

	/* The hello is refused, so the rest of its types needs no memory. */
	if (is_known_wrong(target, rule))
		return;
	type = name_of(target, rule, value);
	if (type != NULL)
		add_sub(target, rule, strcmp(type, "*") == 0 ? NULL : type);
}

/* The end of a subscription. Without types it is for every type of its topic. */
static void end_subscription(struct draft *draft, const struct json_rule *rule)
{
	struct draft_params *params = &draft->params;

	if (params->hello.subscribe_count == params->sub_first)
		add_sub(draft, rule, NULL);
	for (size_t i = params->sub_first; i < params->hello.subscribe_count; i++)
		params->subs[i].topic = params->sub_topic;
}

/* Begins an entry of a batch answer. */
static void set_entry(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;
	struct draft_answer *answer = &draft->answer;
	struct draft_verdict *entries;

	(void)value;
	/* No batch is that large. The last entry stands for the others, and has a problem, so that they store nothing. */
	if (answer->entry_count == PROTOCOL_MAX_BATCH) {
		problem(draft, rule, "are more than the %d of the largest batch",
			PROTOCOL_MAX_BATCH);
		answer->verdict = &answer->entries[PROTOCOL_MAX_BATCH - 1];
		answer->verdict->problem = answer->whole.problem;
		return;
	}
	entries = with_room(draft->memory, answer->entries, answer->entry_count,
		&answer->entry_capacity, sizeof(*entries));
	if (entries == NULL)
		return;
	answer->entries = entries;
	answer->verdict = &entries[answer->entry_count++];
	*answer->verdict = (struct draft_verdict){ .delay_ms = -1 };
}

static void set_entry_id(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;

	(void)rule;
	draft->answer.verdict->entry =
		(struct bytes){ line_copy(draft->memory, value->text), value->text.length };
}

static void set_delay(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;
	int64_t delay;

	/* A fraction of a millisecond is no reason to refuse a verdict. */
	(void)integer(draft, value->raw, &delay);
	if (delay < 0)
		problem(draft, rule, "must not be negative");
	else
		draft->answer.verdict->delay_ms =
			delay > PROTOCOL_MAX_DELAY_MS ? PROTOCOL_MAX_DELAY_MS : delay;
}

/* The note "NAME not stored: it holds …", which is stored instead of the value. */
static const char *not_stored(struct draft *draft, const struct json_rule *rule, const char *why)
{
	char *note = line_alloc(draft->memory, 192);

	if (note == NULL)
		return "";
	(void)snprintf(note, 192, "%s not stored: %s", rule->name, why);
	if (draft->answer.verdict->note == NULL)
		draft->answer.verdict->note = note;
	return note;
}

/* Text for the table, cut to max bytes. */
static void set_words(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;
	const char *why;
	struct bytes text;

	if (draft->answer.verdict->problem != NULL)
		return; /* a malformed verdict keeps only its problem */
	why = text_refusal(value->text);
	text = why == NULL ? value->text : bytes_of(not_stored(draft, rule, why));
	text.length = utf8_fit(text.data, text.length, (size_t)rule->max);
	text.data = line_copy(draft->memory, text);
	*(struct bytes *)field_of(draft, rule) = text;
}

/* JSON for the table. */
static void set_stored(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;
	const char *why;
	size_t size;
	char *json;

	if (draft->answer.verdict->problem != NULL)
		return;
	why = json_refusal(value->raw);
	size = why == NULL ? value->raw.length + 1 : 256;
	json = line_alloc(draft->memory, size);
	if (json == NULL)
		return;
	if (why != NULL) {
		(void)snprintf(json, size, "{\"inboxd\":\"%s\"}", not_stored(draft, rule, why));
		*(struct bytes *)field_of(draft, rule) = bytes_of(json);
		return;
	}
	/* A line feed can only be between two tokens, where a space has the same meaning. */
	for (size_t i = 0; i < value->raw.length; i++) {
		char c = ((const char *)value->raw.data)[i];

		json[i] = c == '\r' || c == '\n' ? ' ' : c;
	}
	*(struct bytes *)field_of(draft, rule) = (struct bytes){ json, value->raw.length };
}

/* Counts an event. The function inbox.emit_caused() reads what is in it. */
static void set_event(void *target, const struct json_rule *rule, const struct json_token *value)
{
	struct draft *draft = target;

	(void)value;
	if (draft->answer.verdict->emit_count++ == PROTOCOL_MAX_EMIT)
		problem(draft, rule, "are more than %d events", PROTOCOL_MAX_EMIT);
}

/* The end of the events. None are the same as no member. */
static void end_emit(struct draft *draft, struct bytes raw)
{
	if (draft->answer.verdict->emit_count > 0)
		draft->answer.verdict->emit =
			(struct bytes){ line_copy(draft->memory, raw), raw.length };
}

#define IN(type, name) offsetof(struct type, name)
#define NUMBER         JSON_IS(JSON_NUMBER)
#define STRING         JSON_IS(JSON_STRING)
#define OBJECT         JSON_IS(JSON_OBJECT)
#define ARRAY          JSON_IS(JSON_ARRAY)
#define NOTHING        JSON_IS(JSON_NULL)
#define BOOLEAN        JSON_IS(JSON_BOOLEAN)
#define STORABLE       (BOOLEAN | NUMBER | STRING | OBJECT | ARRAY)

/* A result and an entry of a batch answer have the same members. */
#define ANSWER_MEMBERS(place)                                                                      \
	{ place, "status", OF_ANSWER, STRING, 0, set_plain, IN(draft_verdict, status) },           \
		{ place, "delay_ms", OF_ANSWER, NUMBER, 0, set_delay },                            \
		{ place, "reason", OF_ANSWER, STRING, 0, set_words, IN(draft_verdict, reason), 0,  \
			PROTOCOL_MAX_REASON },                                                     \
		{ place, "code", OF_ANSWER, STRING, 0, set_words, IN(draft_verdict, code), 0,      \
			PROTOCOL_MAX_CODE },                                                       \
		{ place, "result", OF_ANSWER, STORABLE, 0, set_stored,                             \
			IN(draft_verdict, result) },                                               \
	{                                                                                          \
		place, "emit", OF_ANSWER, ARRAY, EMIT                                              \
	}

/* The format of tables with rows of different length is kept from clang-format 14: it crashes. */
/* clang-format off */
static const struct json_rule rules[] = {
	{ ROOT, "jsonrpc", OF_LINE, STRING, 0, set_version },
	{ ROOT, "id", OF_LINE, STRING | NUMBER | NOTHING, 0, set_id },
	{ ROOT, "method", OF_LINE, STRING, 0, set_plain, IN(draft, method) },
	{ ROOT, "params", OF_PARAMS, OBJECT, PARAMS },
	{ ROOT, "result", OF_ANSWER, OBJECT | NOTHING, RESULT, set_result },
	{ ROOT, "error", OF_ANSWER, OBJECT, ERROR, set_presence, IN(draft, answer.has_error) },

	{ PARAMS, "protocol", OF_HELLO, ARRAY, PROTOCOLS, set_presence, IN(draft, params.protocol_given) },
	{ PARAMS, "handler", OF_HELLO, STRING, 0, set_name, IN(draft, params.hello.handler),
		1, PROTOCOL_MAX_NAME },
	{ PARAMS, "consumer", OF_HELLO | OF_LEASED, STRING, 0, set_name, IN(draft, params.hello.consumer),
		1, PROTOCOL_MAX_NAME },
	{ PARAMS, "instance", OF_HELLO, STRING, 0, set_name, IN(draft, params.hello.instance),
		0, PROTOCOL_MAX_NAME },
	{ PARAMS, "client", OF_HELLO, STRING, 0, set_name, IN(draft, params.hello.client),
		0, PROTOCOL_MAX_NAME },
	{ PARAMS, "subscribe", OF_HELLO, ARRAY, SUBSCRIBE, set_presence, IN(draft, params.subscribe_given) },
	{ PARAMS, "role", OF_HELLO, STRING, 0, set_plain, IN(draft, params.hello.role) },
	{ PARAMS, "batch", OF_HELLO, OBJECT, BATCH },
	{ PARAMS, "max_in_flight", OF_HELLO | OF_WINDOW, NUMBER, 0, set_number,
		IN(draft, params.max_in_flight), 0, PROTOCOL_MAX_WINDOW },
	{ PARAMS, "timeout_ms", OF_HELLO | OF_EXTEND, NUMBER, 0, set_number,
		IN(draft, params.timeout_ms), 1, PROTOCOL_MAX_DELAY_MS },
	{ PARAMS, "delivery", OF_EXTEND, STRING, 0, set_plain, IN(draft, params.delivery) },
	/* PostgreSQL reads the parameters of leased requests. Here only their kinds are checked. */
	{ PARAMS, "key", OF_LEASED, STRING },
	{ PARAMS, "scope", OF_LEASED, STRING },
	{ PARAMS, "operation", OF_LEASED, STRING },
	{ PARAMS, "fingerprint", OF_LEASED, STRING, 0, check_base64 },
	{ PARAMS, "lease_ms", OF_LEASED, NUMBER, 0, set_lease, 0, 1, PROTOCOL_MAX_DELAY_MS },
	{ PARAMS, "keep_ms", OF_LEASED, NUMBER, 0, check_number, 0, 1, PROTOCOL_MAX_DELAY_MS },
	{ PARAMS, "lost", OF_LEASED, STRING },
	{ PARAMS, "token", OF_LEASED, STRING, 0, set_presence, IN(draft, params.token_given) },
	{ PARAMS, "status", OF_LEASED, NUMBER, 0, check_number, 0, 100, 599 },
	{ PARAMS, "headers", OF_LEASED, OBJECT },
	{ PARAMS, "body", OF_LEASED, STRING, 0, check_base64 },
	{ PARAMS, "reason", OF_LEASED, STRING },
	{ PARAMS, "point", OF_LEASED, STRING },
	{ PARAMS, "source", OF_LEASED, STRING, 0, set_presence, IN(draft, params.source_given) },
	{ PARAMS, "event_id", OF_LEASED, STRING, 0, set_presence, IN(draft, params.event_id_given) },
	{ PROTOCOLS, NULL, OF_HELLO, NUMBER, 0, set_protocol },
	{ SUBSCRIBE, NULL, OF_HELLO, OBJECT, SUB, set_sub },
	{ SUB, "topic", OF_HELLO, STRING, 0, set_topic, 0, 1, PROTOCOL_MAX_NAME },
	{ SUB, "types", OF_HELLO, ARRAY, TYPES },
	{ TYPES, NULL, OF_HELLO, STRING, 0, set_type, 0, 1, PROTOCOL_MAX_TYPE },
	{ BATCH, "max", OF_HELLO, NUMBER, 0, set_number, IN(draft, params.hello.batch_max),
		1, PROTOCOL_MAX_BATCH },
	{ BATCH, "wait_ms", OF_HELLO, NUMBER, 0, set_number, IN(draft, params.hello.batch_wait_ms),
		0, PROTOCOL_MAX_WAIT_MS },
	{ BATCH, "ordered", OF_HELLO, BOOLEAN, 0, set_flag, IN(draft, params.hello.batch_ordered) },

	ANSWER_MEMBERS(RESULT),
	{ RESULT, "entries", OF_ANSWER, ARRAY, ENTRIES, set_presence, IN(draft, answer.has_entries) },
	{ ENTRIES, NULL, OF_ANSWER, OBJECT, ENTRY, set_entry, .lenient = true },
	{ ENTRY, "id", OF_ANSWER, STRING, 0, set_entry_id, .lenient = true },
	ANSWER_MEMBERS(ENTRY),
	{ EMIT, NULL, OF_ANSWER, OBJECT, 0, set_event },
	{ ERROR, "message", OF_ANSWER, STRING, 0, set_words, IN(draft_verdict, reason),
		0, PROTOCOL_MAX_REASON },
	{ ERROR, "data", OF_ANSWER, OBJECT, ERROR_DATA, .lenient = true },
	{ ERROR_DATA, "code", OF_ANSWER, STRING, 0, set_words, IN(draft_verdict, code),
		0, PROTOCOL_MAX_CODE, .lenient = true },
};

static const struct {
	unsigned kinds;
	const char *words;
} kind_words[] = {
	{ NUMBER, "a number" },
	{ STRING, "a string" },
	{ ARRAY, "an array" },
	{ BOOLEAN, "true or false" },
	{ STRING | NUMBER | NOTHING, "a string or a number" },
};
/* clang-format on */

#define RULES (sizeof(rules) / sizeof(rules[0]))
_Static_assert(RULES <= JSON_TABLE_RULES, "the table is too large for json/table.h");
_Static_assert(PROTOCOL_MAX_DEPTH == JSON_MAX_DEPTH, "a line is read by a stream of that depth");

static void repeated(void *target, const struct json_rule *rule)
{
	problem(target, rule, "is given twice");
}

/* A member that is null counts as not given. */
static void mistyped(void *target, const struct json_rule *rule, enum json_kind kind)
{
	const char *words = "an object";

	if (rule->lenient || (kind == JSON_NULL && rule->name != NULL))
		return;
	for (size_t i = 0; i < sizeof(kind_words) / sizeof(kind_words[0]); i++) {
		if (kind_words[i].kinds == rule->kinds)
			words = kind_words[i].words;
	}
	problem(target, rule, "must be %s", words);
}

/* Kept until its value comes: null counts as not given. */
static void unknown_name(void *target, int place, struct bytes name)
{
	struct draft *draft = target;

	if (place == SUB && draft->problems[SCOPE_HELLO] == NULL)
		draft->params.sub_unknown = line_copy(draft->memory, name);
}

static const struct json_table table;

/* In a subscription an unknown member is a problem: with `topic` mistyped it would subscribe to every topic. In other
 * places it is ignored. */
static void unknown_value(void *target, int place, const struct json_token *value)
{
	struct draft *draft = target;
	const char *name = draft->params.sub_unknown;
	const struct json_rule *element = json_table_element(&table, SUBSCRIBE);
	struct nearest nearest;

	if (place != SUB || is_known_wrong(draft, element))
		return;
	if (value->kind == JSON_NULL || name == NULL)
		return;
	nearest_start(&nearest, name);
	for (size_t i = 0; i < RULES; i++) {
		if (rules[i].place == SUB)
			nearest_offer(&nearest, rules[i].name);
	}
	if (nearest.best != NULL)
		problem(draft, element, "has no member \"%s\"; did you mean \"%s\"?",
			protocol_quote(draft->memory, name), nearest.best);
	else
		problem(draft, element, "has no member \"%s\": there are topic and types",
			protocol_quote(draft->memory, name));
}

static void ended(void *target, int place, struct bytes raw)
{
	struct draft *draft = target;

	if (place == SUB)
		end_subscription(draft, json_table_element(&table, SUBSCRIBE));
	else if (place == PARAMS)
		draft->params.whole = raw;
	else if (place == EMIT)
		end_emit(draft, raw);
	else if (place == ENTRY)
		draft->answer.verdict = &draft->answer.whole;
}

static bool is_exhausted(const void *target)
{
	return ((const struct draft *)target)->memory->exhausted;
}

static const struct json_table table = {
	.rules = rules,
	.count = RULES,
	.root = ROOT,
	.repeated = repeated,
	.mistyped = mistyped,
	.unknown_name = unknown_name,
	.unknown_value = unknown_value,
	.ended = ended,
	.stopped = is_exhausted,
};

int draft_read(struct json_stream *stream, struct bytes text, struct draft *draft, struct err *err)
{
	*draft = (struct draft){ .memory = draft->memory };
	draft->params.timeout_ms = -1;
	draft->params.max_in_flight = -1;
	draft->params.hello.batch_max = 1;
	draft->answer.whole.delay_ms = -1;
	draft->answer.verdict = &draft->answer.whole;
	return json_table_read(stream, text, &table, draft, err);
}
