/*
 * The table of the JSON members that the protocol knows, and the checks that apply to all of them: given once, and of
 * the right type. The functions that store a value are in protocol_setters.c.
 */
#include "dispatch/protocol/protocol_members.h"

#include "config/nearest.h"
#include "dispatch/protocol/protocol_setters.h"

#define KIND_STORABLE (KIND_BOOL | KIND_NUMBER | KIND_STRING | KIND_OBJECT | KIND_ARRAY)

/* The format of tables with rows of different length is kept from clang-format 14: it crashes. */
/* clang-format off */
static const struct {
	unsigned kinds;
	const char *words;
} kind_words[] = {
	{ KIND_NUMBER, "a number" },
	{ KIND_STRING, "a string" },
	{ KIND_ARRAY, "an array" },
	{ KIND_STRING | KIND_NUMBER | KIND_NULL, "a string or a number" },
};
/* clang-format on */

static const char *words_of(unsigned kinds)
{
	for (size_t i = 0; i < sizeof(kind_words) / sizeof(kind_words[0]); i++) {
		if (kind_words[i].kinds == kinds)
			return kind_words[i].words;
	}
	return "an object";
}

#define IN(type, name) offsetof(struct type, name)
#define OF_LINE        (1u << SCOPE_LINE)
#define OF_HELLO       (1u << SCOPE_HELLO)
#define OF_EXTEND      (1u << SCOPE_EXTEND)
#define OF_WINDOW      (1u << SCOPE_WINDOW)
#define OF_ANSWER      (1u << SCOPE_ANSWER)
#define OF_PARAMS      (OF_HELLO | OF_EXTEND | OF_WINDOW)

/* A result and an entry of a batch answer have the same members. */
#define ANSWER_MEMBERS(context)                                                                    \
	{ context, "status", OF_ANSWER, KIND_STRING, 0, set_plain, IN(draft_verdict, status) },    \
		{ context, "delay_ms", OF_ANSWER, KIND_NUMBER, 0, set_delay },                     \
		{ context, "reason", OF_ANSWER, KIND_STRING, 0, set_words,                         \
			IN(draft_verdict, reason), 0, PROTOCOL_MAX_REASON },                       \
		{ context, "code", OF_ANSWER, KIND_STRING, 0, set_words, IN(draft_verdict, code),  \
			0, PROTOCOL_MAX_CODE },                                                    \
	{                                                                                          \
		context, "result", OF_ANSWER, KIND_STORABLE, 0, set_stored,                        \
			IN(draft_verdict, result), .captured = true                                \
	}

/* clang-format off */
static const struct member members[] = {
	{ ROOT, "jsonrpc", OF_LINE, KIND_STRING, 0, set_version },
	{ ROOT, "id", OF_LINE, KIND_STRING | KIND_NUMBER | KIND_NULL, 0, set_id },
	{ ROOT, "method", OF_LINE, KIND_STRING, 0, set_plain, IN(draft, method) },
	{ ROOT, "params", OF_PARAMS, KIND_OBJECT, PARAMS },
	{ ROOT, "result", OF_ANSWER, KIND_OBJECT | KIND_NULL, RESULT, set_result },
	{ ROOT, "error", OF_ANSWER, KIND_OBJECT, ERROR, set_presence, IN(draft, has_error) },

	{ PARAMS, "protocol", OF_HELLO, KIND_ARRAY, PROTOCOLS, set_presence,
		IN(draft, protocol_given) },
	{ PARAMS, "handler", OF_HELLO, KIND_STRING, 0, set_name, IN(draft, hello.handler),
		1, PROTOCOL_MAX_NAME },
	{ PARAMS, "instance", OF_HELLO, KIND_STRING, 0, set_name, IN(draft, hello.instance),
		0, PROTOCOL_MAX_NAME },
	{ PARAMS, "client", OF_HELLO, KIND_STRING, 0, set_name, IN(draft, hello.client),
		0, PROTOCOL_MAX_NAME },
	{ PARAMS, "subscribe", OF_HELLO, KIND_ARRAY, SUBSCRIBE },
	{ PARAMS, "batch", OF_HELLO, KIND_OBJECT, BATCH },
	{ PARAMS, "max_in_flight", OF_HELLO | OF_WINDOW, KIND_NUMBER, 0, set_number,
		IN(draft, max_in_flight), 0, PROTOCOL_MAX_WINDOW },
	{ PARAMS, "timeout_ms", OF_HELLO | OF_EXTEND, KIND_NUMBER, 0, set_number, IN(draft, timeout_ms),
		1, PROTOCOL_MAX_DELAY_MS },
	{ PARAMS, "delivery", OF_EXTEND, KIND_STRING, 0, set_plain, IN(draft, delivery) },
	{ PROTOCOLS, NULL, OF_HELLO, KIND_NUMBER, 0, set_protocol },
	{ SUBSCRIBE, NULL, OF_HELLO, KIND_OBJECT, SUB, set_sub },
	{ SUB, "topic", OF_HELLO, KIND_STRING, 0, set_topic, 0, 1, PROTOCOL_MAX_NAME },
	{ SUB, "types", OF_HELLO, KIND_ARRAY, TYPES },
	{ TYPES, NULL, OF_HELLO, KIND_STRING, 0, set_type, 0, 1, PROTOCOL_MAX_TYPE },
	{ BATCH, "max", OF_HELLO, KIND_NUMBER, 0, set_number, IN(draft, hello.batch_max),
		1, PROTOCOL_MAX_BATCH },
	{ BATCH, "wait_ms", OF_HELLO, KIND_NUMBER, 0, set_number, IN(draft, hello.batch_wait_ms),
		0, PROTOCOL_MAX_WAIT_MS },

	ANSWER_MEMBERS(RESULT),
	{ RESULT, "entries", OF_ANSWER, KIND_ARRAY, ENTRIES, set_presence,
		IN(draft, has_entries) },
	{ ENTRIES, NULL, OF_ANSWER, KIND_OBJECT, ENTRY, set_entry, .lenient = true },
	{ ENTRY, "id", OF_ANSWER, KIND_STRING, 0, set_entry_id, .lenient = true },
	ANSWER_MEMBERS(ENTRY),
	{ ERROR, "message", OF_ANSWER, KIND_STRING, 0, set_words, IN(draft_verdict, reason),
		0, PROTOCOL_MAX_REASON },
	{ ERROR, "data", OF_ANSWER, KIND_OBJECT, ERROR_DATA, .lenient = true },
	{ ERROR_DATA, "code", OF_ANSWER, KIND_STRING, 0, set_words, IN(draft_verdict, code),
		0, PROTOCOL_MAX_CODE, .lenient = true },
};
/* clang-format on */

#define MEMBERS (sizeof(members) / sizeof(members[0]))
_Static_assert(MEMBERS <= 64, "the set of members seen is one word");

const struct member *member_find(enum json_context context, struct bytes key)
{
	for (size_t i = 0; i < MEMBERS; i++) {
		if (members[i].context == context && members[i].key != NULL &&
			bytes_equal(bytes_of(members[i].key), key))
			return &members[i];
	}
	return NULL;
}

const struct member *member_element(enum json_context context)
{
	for (size_t i = 0; i < MEMBERS; i++) {
		if (members[i].context == context && members[i].key == NULL)
			return &members[i];
	}
	return NULL;
}

bool member_admit(struct draft_writer *writer, const struct member *member, enum json_kind kind,
	uint64_t *seen)
{
	uint64_t bit = UINT64_C(1) << (member - members);

	if (member->key != NULL && (*seen & bit) != 0) {
		set_problem(writer, member, "is given twice");
		return false;
	}
	*seen |= bit;
	if ((member->kinds & kind) != 0)
		return true;
	if (!member->lenient && (kind != KIND_NULL || member->key == NULL))
		set_problem(writer, member, "must be %s", words_of(member->kinds));
	return false;
}

void member_unknown(struct draft_writer *writer, enum json_context context, const char *key)
{
	const struct member *entry = member_element(SUBSCRIBE);
	struct nearest nearest;

	if (context != SUB || key == NULL)
		return;
	nearest_start(&nearest, key);
	for (size_t i = 0; i < MEMBERS; i++) {
		if (members[i].context == SUB)
			nearest_offer(&nearest, members[i].key);
	}
	if (nearest.best != NULL)
		set_problem(writer, entry, "has no member \"%s\"; did you mean \"%s\"?",
			protocol_quote(writer->memory, key), nearest.best);
	else
		set_problem(writer, entry, "has no member \"%s\": there are topic and types",
			protocol_quote(writer->memory, key));
}

void member_leave(struct draft_writer *writer, enum json_context context)
{
	if (context == SUB)
		finish_subscription(writer, member_element(SUBSCRIBE));
	else if (context == ENTRY)
		writer->verdict = &writer->draft->whole;
}
