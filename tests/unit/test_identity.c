/* identity.c, identity_rules.c, cloudevent.c: who a record is, by the contract's rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/buf.h"
#include "base/text/utf8.h"
#include "model/identity/identity.h"
#include "model/message/record.h"

#define BYTES(literal)                                                                             \
	(struct bytes)                                                                             \
	{                                                                                          \
		(literal), sizeof(literal) - 1                                                     \
	}
#define NONE                                                                                       \
	(struct bytes)                                                                             \
	{                                                                                          \
		NULL, 0                                                                            \
	}
#define LIST(...)                                                                                  \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}
#define HEADERS(...)                                                                               \
	(const struct header[])                                                                    \
	{                                                                                          \
		__VA_ARGS__,                                                                       \
		{                                                                                  \
			NULL,                                                                      \
			{                                                                          \
				NULL, 0                                                            \
			}                                                                          \
		}                                                                                  \
	}
#define STRUCTURED                                                                                 \
	{                                                                                          \
		"content-type", BYTES("application/cloudevents+json; charset=utf-8")               \
	}

/* A configuration and a record; what a test does not name is the default. */
struct given {
	const char *const *id;
	const char *const *type;
	const char *const *source;
	const char *const *accept;
	bool missing_id_rejects;
	const struct header *headers;
	struct bytes key;
	struct bytes payload;
	int64_t timestamp_ms;
};

/* What came out; the texts are the test's until the next call of find(). */
struct outcome {
	int result;
	struct identity identity;
};

static const char *const default_id[] = { "header:ce_id", "header:id", "header:event-id",
	"header:eventId", "header:idempotency-key", "header:message-id", NULL };
static const char *const default_type[] = { "header:ce_type", "header:eventType",
	"header:event-type", "header:type", "topic", NULL };
static const char *const default_source[] = { "header:ce_source", "topic", NULL };
static const char *const default_accept[] = { "*", NULL };

static size_t length_of(const char *const *list)
{
	size_t length = 0;

	while (list[length] != NULL)
		length++;
	return length;
}

static struct identity_spec spec_of(const struct given *given)
{
	struct identity_spec spec = {
		.id = given->id == NULL ? default_id : given->id,
		.type = given->type == NULL ? default_type : given->type,
		.source = given->source == NULL ? default_source : given->source,
		.accept = given->accept == NULL ? default_accept : given->accept,
		.missing_id_rejects = given->missing_id_rejects,
	};

	spec.id_count = length_of(spec.id);
	spec.type_count = length_of(spec.type);
	spec.source_count = length_of(spec.source);
	spec.accept_count = length_of(spec.accept);
	return spec;
}

static struct record record_of(const struct given *given)
{
	struct record record = {
		.topic = "orders",
		.partition = 3,
		.offset = 918273,
		.timestamp_ms = given->timestamp_ms,
		.key = given->key,
		.payload = given->payload,
		.headers = given->headers,
	};

	while (given->headers != NULL && given->headers[record.header_count].name != NULL)
		record.header_count++;
	return record;
}

static struct outcome find_with(struct identity_finder *finder, const struct given *given)
{
	const struct identity_spec spec = spec_of(given);
	const struct record record = record_of(given);
	struct identity_rules *rules = NULL;
	struct outcome outcome;

	assert_int_equal(identity_rules_new(&rules, &spec, NULL), 0);
	outcome.result = identity_find(finder, rules, &record, &outcome.identity, NULL);
	identity_rules_free(rules);
	return outcome;
}

#define find(state, ...) find_with(*(state), &(struct given){ __VA_ARGS__ })

static void assert_id(struct outcome outcome, const char *expected)
{
	assert_int_equal(outcome.result, 0);
	assert_string_equal(outcome.identity.event_id, expected);
}

static void assert_type(struct outcome outcome, const char *expected)
{
	assert_int_equal(outcome.result, 0);
	assert_string_equal(outcome.identity.type, expected);
}

static void assert_source(struct outcome outcome, const char *expected)
{
	assert_int_equal(outcome.result, 0);
	assert_string_equal(outcome.identity.source, expected);
}

static void assert_reject(struct outcome outcome, const char *reason)
{
	assert_int_equal(outcome.result, IDENTITY_REJECT);
	assert_string_equal(outcome.identity.reject, reason);
	assert_true(strlen(outcome.identity.words) > 20);
}

static int set_up(void **state)
{
	struct identity_finder *finder = NULL;
	int r = identity_finder_new(&finder, NULL);

	*state = finder;
	return r;
}

static int tear_down(void **state)
{
	identity_finder_free(*state);
	return 0;
}

static void the_first_locator_that_finds_something_names_the_record(void **state)
{
	assert_id(
		find(state, .headers = HEADERS({ "x", BYTES("1") }, { "id", BYTES("A1") })), "A1");
	assert_id(find(state, .id = LIST("json:/id", "key"), .key = BYTES("k"),
			  .payload = BYTES("{\"id\":\"body\"}")),
		"body");
	assert_id(find(state, .id = LIST("json:/id", "key"), .key = BYTES("k"),
			  .payload = BYTES("{\"no\":\"body\"}")),
		"k");
	assert_id(find(state, .id = LIST("json:/id", "key"), .key = BYTES("k"),
			  .payload = BYTES("{\"id\":\"one\"} {\"id\":\"two\"}")),
		"k");
	assert_id(find(state, .id = LIST("key", "json:/id"), .key = BYTES("k"),
			  .payload = BYTES("{\"id\":\"body\"}")),
		"k");
}

static void debezium_outbox_records_work_with_the_defaults(void **state)
{
	struct outcome outcome = find(state, .key = BYTES("aggregate-7"),
		.headers = HEADERS({ "id", BYTES("5c1e") }, { "eventType", BYTES("OrderCreated") }),
		.payload = BYTES("{}"));

	assert_id(outcome, "5c1e");
	assert_type(outcome, "OrderCreated");
	assert_source(outcome, "orders");
}

static void header_names_match_exactly(void **state)
{
	assert_id(find(state, .headers = HEADERS({ "ID", BYTES("A1") }), .timestamp_ms = 5),
		"orders/3/918273@5");
}

static void the_last_value_of_a_repeated_header_counts(void **state)
{
	assert_id(find(state, .headers = HEADERS({ "id", BYTES("old") }, { "id", BYTES("new") })),
		"new");
}

static void a_null_header_counts_as_missing(void **state)
{
	assert_id(find(state, .headers = HEADERS({ "id", BYTES("A1") }, { "id", NONE })), "A1");
	assert_id(find(state, .headers = HEADERS({ "id", NONE }, { "event-id", BYTES("B") })), "B");
}

static void without_an_id_the_coordinates_are_the_id(void **state)
{
	assert_id(find(state, .timestamp_ms = 1700000000123), "orders/3/918273@1700000000123");
	assert_id(find(state, .timestamp_ms = -1), "orders/3/918273@-1");
}

static void without_an_id_the_rules_can_reject(void **state)
{
	assert_reject(find(state, .missing_id_rejects = true), "id_missing");
}

static void two_different_ids_in_one_record_reject_it(void **state)
{
	assert_reject(
		find(state, .headers = HEADERS({ "id", BYTES("A") }, { "message-id", BYTES("B") })),
		"id_conflict");
	assert_reject(
		find(state, .headers = HEADERS({ "ce_id", BYTES("A") }, { "id", BYTES("B") })),
		"id_conflict");
	assert_reject(find(state, .id = LIST("header:mine"),
			      .headers = HEADERS({ "ce_id", BYTES("A") }, { "mine", BYTES("B") })),
		"id_conflict");
	assert_reject(find(state, .id = LIST("key", "header:a", "header:b"), .key = BYTES("k"),
			      .headers = HEADERS({ "a", BYTES("A") }, { "b", BYTES("B") })),
		"id_conflict");
	assert_reject(find(state, .headers = HEADERS(STRUCTURED, { "id", BYTES("B") }),
			      .payload = BYTES("{\"id\":\"A\"}")),
		"id_conflict");
}

static void equal_ids_in_two_headers_are_no_conflict(void **state)
{
	assert_id(find(state, .headers = HEADERS({ "id", BYTES("A") }, { "ce_id", BYTES("A") })),
		"A");
	assert_id(find(state, .headers = HEADERS(STRUCTURED, { "id", BYTES("A") }),
			  .payload = BYTES("{\"id\":\"A\"}")),
		"A");
}

static void only_headers_of_the_id_rules_can_conflict(void **state)
{
	assert_id(find(state, .headers = HEADERS({ "id", BYTES("A") }, { "other", BYTES("B") })),
		"A");
	assert_id(find(state, .id = LIST("header:id", "key", "json:/id"), .key = BYTES("k"),
			  .headers = HEADERS({ "id", BYTES("A") }),
			  .payload = BYTES("{\"id\":\"B\"}")),
		"A");
}

static void an_empty_id_is_rejected(void **state)
{
	assert_reject(find(state, .headers = HEADERS({ "id", BYTES("") })), "id_empty");
	assert_reject(find(state, .headers = HEADERS({ "ce_id", BYTES("A") }, { "id", BYTES("") })),
		"id_empty");
	assert_reject(find(state, .id = LIST("key"), .key = BYTES("")), "id_empty");
	assert_reject(
		find(state, .id = LIST("json:/id"), .payload = BYTES("{\"id\":\"\"}")), "id_empty");
	assert_reject(
		find(state, .headers = HEADERS(STRUCTURED), .payload = BYTES("{\"id\":\"\"}")),
		"id_empty");
}

static void ids_that_cannot_be_stored_are_rejected(void **state)
{
	assert_reject(find(state, .headers = HEADERS({ "id", BYTES("a\0b") })), "id_nul");
	assert_reject(find(state, .headers = HEADERS({ "id", BYTES("\xff") })), "id_not_utf8");
	assert_reject(
		find(state, .id = LIST("json:/id"), .payload = BYTES("{\"id\":\"a\\u0000\"}")),
		"id_nul");
	assert_reject(
		find(state, .id = LIST("json:/id"), .payload = BYTES("{\"id\":\"\\ud800x\"}")),
		"id_not_utf8");
	assert_reject(find(state, .headers = HEADERS(STRUCTURED),
			      .payload = BYTES("{\"id\":\"\\ud800x\"}")),
		"id_not_utf8");
}

static void an_id_has_at_most_1024_bytes(void **state)
{
	char text[IDENTITY_MAX_BYTES + 1];

	memset(text, 'x', sizeof(text));
	assert_int_equal(
		find(state, .headers = HEADERS({ "id", { text, IDENTITY_MAX_BYTES } })).result, 0);
	assert_reject(find(state, .headers = HEADERS({ "id", { text, IDENTITY_MAX_BYTES + 1 } })),
		"id_too_long");
}

static void types_and_sources_have_the_same_limits(void **state)
{
	char text[IDENTITY_MAX_BYTES + 1];

	memset(text, 'x', sizeof(text));
	assert_reject(find(state, .headers = HEADERS({ "type", { text, sizeof(text) } })),
		"type_too_long");
	assert_reject(find(state, .headers = HEADERS({ "type", BYTES("a\0b") })), "type_nul");
	assert_reject(find(state, .headers = HEADERS({ "type", BYTES("\xff") })), "type_not_utf8");
	assert_reject(find(state, .headers = HEADERS({ "ce_source", { text, sizeof(text) } })),
		"source_too_long");
	assert_reject(find(state, .headers = HEADERS({ "ce_source", BYTES("\0") })), "source_nul");
	assert_reject(
		find(state, .headers = HEADERS({ "ce_source", BYTES("\xff") })), "source_not_utf8");
}

static void numbers_and_booleans_in_a_body_are_values_as_written(void **state)
{
	static const char *const id[] = { "json:/a/0/id", NULL };

	assert_id(
		find(state, .id = id, .payload = BYTES("{\"a\":[{\"id\":12345678901234567890}]}")),
		"12345678901234567890");
	assert_id(find(state, .id = id, .payload = BYTES("{\"a\":[{\"id\":1.50}]}")), "1.50");
	assert_id(find(state, .id = id, .payload = BYTES("{\"a\":[{\"id\":true}]}")), "true");
	assert_id(find(state, .id = id, .payload = BYTES("{\"a\":[{\"id\":\"\\u00e9\"}]}")),
		"\xc3\xa9");
}

static void an_id_that_is_no_scalar_or_not_in_json_is_not_found(void **state)
{
	const struct bytes rows[] = { BYTES("{\"id\":null}"), BYTES("{\"id\":{}}"),
		BYTES("{\"id\":[1]}"), BYTES("{}"), BYTES("{\"x\":1"), BYTES("\xff"), BYTES(""),
		NONE };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_reject(find(state, .id = LIST("json:/id"), .missing_id_rejects = true,
				      .payload = rows[i]),
			"id_missing");
}

static void type_and_source_can_be_found_in_the_body(void **state)
{
	struct outcome outcome = find(state, .type = LIST("json:/t"), .source = LIST("json:/s"),
		.id = LIST("json:/i"), .payload = BYTES("{\"s\":\"S\",\"t\":\"T\",\"i\":7}"));

	assert_id(outcome, "7");
	assert_type(outcome, "T");
	assert_source(outcome, "S");
}

static void topic_and_literal_can_define_type_and_source(void **state)
{
	struct outcome outcome =
		find(state, .type = LIST("topic"), .source = LIST("literal:erp:main"));

	assert_type(outcome, "orders");
	assert_source(outcome, "erp:main");
}

static void a_record_without_a_type_has_none(void **state)
{
	struct outcome outcome = find(state, .type = LIST("header:type"));

	assert_int_equal(outcome.result, 0);
	assert_null(outcome.identity.type);
}

static void an_empty_type_or_source_counts_as_not_found(void **state)
{
	struct outcome outcome =
		find(state, .headers = HEADERS({ "ce_type", BYTES("") }, { "type", BYTES("t") },
				    { "ce_source", BYTES("") }));

	assert_type(outcome, "t");
	assert_source(outcome, "orders");
}

static void a_record_without_a_source_has_its_topic(void **state)
{
	assert_source(find(state, .source = LIST("header:nothing")), "orders");
}

static void the_attributes_of_a_binary_cloudevent_come_before_the_rules(void **state)
{
	struct outcome outcome = find(state, .id = LIST("key"), .type = LIST("topic"),
		.source = LIST("topic"), .key = BYTES("k"),
		.headers = HEADERS({ "ce_id", BYTES("A") }, { "ce_type", BYTES("T") },
			{ "ce_source", BYTES("/s") }));

	assert_id(outcome, "A");
	assert_type(outcome, "T");
	assert_source(outcome, "/s");
}

static void structured_cloudevents_have_their_identity_in_the_envelope(void **state)
{
	static const struct header types[][2] = {
		{ STRUCTURED, { NULL, { NULL, 0 } } },
		{ { "Content-Type", BYTES("Application/CloudEvents+JSON") },
			{ NULL, { NULL, 0 } } },
		{ { "content-type", BYTES("application/cloudevents") }, { NULL, { NULL, 0 } } },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct outcome outcome = find(state, .headers = types[i],
			.payload = BYTES("{\"data\":{\"id\":\"no\"},\"id\":\"A\\u0042\",\"type\":"
					 "\"T\",\"source\":\"/s\"}"));

		assert_id(outcome, "AB");
		assert_type(outcome, "T");
		assert_source(outcome, "/s");
	}
}

static void what_is_missing_in_an_envelope_comes_from_the_rules(void **state)
{
	struct outcome outcome = find(state, .headers = HEADERS(STRUCTURED, { "type", BYTES("T") }),
		.payload = BYTES("{\"id\":\"A\",\"type\":null,\"source\":\"\"}"));

	assert_type(outcome, "T");
	assert_source(outcome, "orders");
}

static void a_malformed_envelope_is_rejected(void **state)
{
	const struct bytes rows[] = {
		BYTES(""),
		BYTES("oops"),
		BYTES("[]"),
		BYTES("\"id\""),
		BYTES("{}"),
		BYTES("{\"id\":7}"),
		BYTES("{\"id\":null}"),
		BYTES("{\"id\":{}}"),
		BYTES("{\"id\":\"A\""),
		BYTES("{\"id\":\"A\"} x"),
		BYTES("{\"id\":\"A\",\"id\":\"B\"}"),
		BYTES("{\"id\":\"A\",\"\\u0069d\":\"B\"}"),
		BYTES("{\"id\":\"A\",\"source\":1}"),
		BYTES("{\"id\":\"A\",\"type\":[]}"),
		BYTES("{\"id\":\"A\",\"x\":\"\xff\"}"),
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_reject(find(state, .headers = HEADERS(STRUCTURED), .payload = rows[i]),
			"cloudevent_malformed");
}

static void a_batch_or_a_tombstone_has_no_envelope(void **state)
{
	assert_id(find(state, .timestamp_ms = 1,
			  .headers = HEADERS(
				  { "content-type", BYTES("application/cloudevents-batch+json") }),
			  .payload = BYTES("[]")),
		"orders/3/918273@1");
	assert_id(find(state, .headers = HEADERS(STRUCTURED, { "id", BYTES("A") })), "A");
}

static void types_that_are_not_accepted_are_skipped(void **state)
{
	static const char *const accept[] = { "order.*", "paid", NULL };
	const struct {
		struct bytes type;
		int result;
	} rows[] = {
		{ BYTES("order.created"), 0 },
		{ BYTES("order."), 0 },
		{ BYTES("order"), IDENTITY_SKIP },
		{ BYTES("paid"), 0 },
		{ BYTES("paid.twice"), IDENTITY_SKIP },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(
			find(state, .accept = accept, .headers = HEADERS({ "type", rows[i].type }))
				.result,
			rows[i].result);
}

static void a_record_without_type_matches_the_star_only(void **state)
{
	assert_int_equal(find(state, .type = LIST("header:t")).result, 0);
	assert_int_equal(
		find(state, .type = LIST("header:t"), .accept = LIST("a*")).result, IDENTITY_SKIP);
}

static void a_skipped_record_is_never_rejected_for_its_id(void **state)
{
	assert_int_equal(
		find(state, .accept = LIST("x"), .headers = HEADERS({ "id", BYTES("") })).result,
		IDENTITY_SKIP);
}

static void a_reason_is_one_line_with_any_quoted_text(void **state)
{
	const struct outcome outcome =
		find(state, .id = LIST("header:a\rb"), .headers = HEADERS({ "a\rb", BYTES("") }));

	assert_reject(outcome, "id_empty");
	assert_non_null(strstr(outcome.identity.words, "header:a b"));
}

static void a_truncated_reason_is_valid_utf8(void **state)
{
	struct buf locator = BUF_INIT;
	struct outcome outcome;

	buf_add_str(&locator, "header:");
	for (size_t i = 0; i < 190; i++)
		buf_add_str(&locator, "\xc3\xa9");
	outcome = find(state, .id = LIST(buf_str(&locator)),
		.headers = HEADERS({ buf_str(&locator) + strlen("header:"), BYTES("") }));
	assert_reject(outcome, "id_empty");
	assert_true(utf8_is_valid(bytes_of(outcome.identity.words)));
	buf_fini(&locator);
}

static void assert_refused(const char *const *id, const char *const *type, const char *named)
{
	const struct given given = { .id = id, .type = type };
	const struct identity_spec spec = spec_of(&given);
	struct identity_rules *rules = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(identity_rules_new(&rules, &spec, &err), FAULT_CONFIG);
	assert_null(rules);
	assert_non_null(strstr(err.text, named));
}

static void a_locator_that_cannot_work_is_a_configuration_error(void **state)
{
	(void)state;
	assert_refused(LIST("heder:id"), NULL, "heder:id");
	assert_refused(LIST("header:"), NULL, "header:");
	assert_refused(LIST("keys"), NULL, "keys");
	assert_refused(LIST("topic"), NULL, "topic");
	assert_refused(LIST("literal:x"), NULL, "literal:x");
	assert_refused(LIST(""), NULL, "id");
	assert_refused(LIST("json:id"), NULL, "json:id");
	assert_refused(LIST("json:/a~2"), NULL, "json:/a~2");
	assert_refused(NULL, LIST("key"), "type");
	assert_refused(NULL, LIST("literal:"), "literal:");
	assert_refused(NULL, LIST("literal:\xff"), "UTF-8");
}

static void a_topic_may_have_64_pointers(void **state)
{
	const char *many[66] = { NULL };

	(void)state;
	for (size_t i = 0; i < 64; i++)
		many[i] = "json:/a";
	assert_id(find(state, .id = many, .payload = BYTES("{\"a\":1}")), "1");
	many[64] = "json:/a";
	assert_refused(many, NULL, "64");
}

static int find_once(void)
{
	const struct given given = { .id = LIST("json:/a/\xc3\xa9"),
		.payload = BYTES("{\"a\":{\"\\u00e9\":\"\\u0041\"}}") };
	const struct identity_spec spec = spec_of(&given);
	const struct record record = record_of(&given);
	struct identity_finder *finder = NULL;
	struct identity_rules *rules = NULL;
	struct identity identity;
	int r = identity_finder_new(&finder, NULL);

	if (r == 0)
		r = identity_rules_new(&rules, &spec, NULL);
	if (r == 0)
		r = identity_find(finder, rules, &record, &identity, NULL);
	if (r == 0)
		assert_string_equal(identity.event_id, "A");
	identity_rules_free(rules);
	identity_finder_free(finder);
	return r;
}

static void every_failed_allocation_is_a_fault(void **state)
{
	size_t n = 1;

	(void)state;
	for (;; n++) {
		int r;

		alloc_fail_at(n);
		r = find_once();
		if (!alloc_fail_never()) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, FAULT_MEMORY);
	}
	assert_true(n > 20);
}

static void coordinates_need_memory_too(void **state)
{
	const struct given given = { .timestamp_ms = 1 };
	const struct identity_spec spec = spec_of(&given);
	const struct record record = record_of(&given);
	struct identity_rules *rules = NULL;
	struct identity identity;

	assert_int_equal(identity_rules_new(&rules, &spec, NULL), 0);
	alloc_fail_at(1);
	assert_int_equal(identity_find(*state, rules, &record, &identity, NULL), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	assert_int_equal(identity_find(*state, rules, &record, &identity, NULL), 0);
	identity_rules_free(rules);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(the_first_locator_that_finds_something_names_the_record),
		test(debezium_outbox_records_work_with_the_defaults),
		test(header_names_match_exactly),
		test(the_last_value_of_a_repeated_header_counts),
		test(a_null_header_counts_as_missing),
		test(without_an_id_the_coordinates_are_the_id),
		test(without_an_id_the_rules_can_reject),
		test(two_different_ids_in_one_record_reject_it),
		test(equal_ids_in_two_headers_are_no_conflict),
		test(only_headers_of_the_id_rules_can_conflict),
		test(an_empty_id_is_rejected),
		test(ids_that_cannot_be_stored_are_rejected),
		test(an_id_has_at_most_1024_bytes),
		test(types_and_sources_have_the_same_limits),
		test(numbers_and_booleans_in_a_body_are_values_as_written),
		test(an_id_that_is_no_scalar_or_not_in_json_is_not_found),
		test(type_and_source_can_be_found_in_the_body),
		test(topic_and_literal_can_define_type_and_source),
		test(a_record_without_a_type_has_none),
		test(an_empty_type_or_source_counts_as_not_found),
		test(a_record_without_a_source_has_its_topic),
		test(the_attributes_of_a_binary_cloudevent_come_before_the_rules),
		test(structured_cloudevents_have_their_identity_in_the_envelope),
		test(what_is_missing_in_an_envelope_comes_from_the_rules),
		test(a_malformed_envelope_is_rejected),
		test(a_batch_or_a_tombstone_has_no_envelope),
		test(types_that_are_not_accepted_are_skipped),
		test(a_record_without_type_matches_the_star_only),
		test(a_skipped_record_is_never_rejected_for_its_id),
		test(a_reason_is_one_line_with_any_quoted_text),
		test(a_truncated_reason_is_valid_utf8),
		test(a_locator_that_cannot_work_is_a_configuration_error),
		test(a_topic_may_have_64_pointers),
		test(every_failed_allocation_is_a_fault),
		test(coordinates_need_memory_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
