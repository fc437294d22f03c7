/* Which trace a message belongs to, which are sent, the ring, and the JSON that is sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/context.h"
#include "trace/otlp.h"
#include "trace/ring.h"

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static struct message message_with(const char *headers)
{
	return (struct message){
		.event_id = "e1",
		.source = "orders",
		.topic = "orders",
		.partition = 3,
		.offset = 17,
		.headers = bytes_of(headers),
	};
}

static bool context_of(struct trace_context *out, const char *headers)
{
	const struct message message = message_with(headers);

	return trace_context_of(out, &message, 1);
}

static void assert_taken(const char *headers)
{
	struct trace_context context;

	assert_true(context_of(&context, headers));
	assert_true(context.trace_high == 0x0af7651916cd43ddu);
	assert_true(context.trace_low == 0x8448eb211c80319cu);
	assert_true(context.parent == 0xb7ad6b7169203331u);
}

static void assert_own(const char *headers)
{
	struct trace_context own;
	struct trace_context context;

	assert_true(context_of(&own, "[]"));
	assert_true(context_of(&context, headers));
	assert_true(context.parent == 0);
	assert_true(context.trace_high == own.trace_high && context.trace_low == own.trace_low);
}

static void the_trace_comes_from_the_header(void **state)
{
	(void)state;
	assert_taken("[[\"traceparent\",\"00-" TRACE "-" PARENT "-01\"]]");
	assert_taken("[[\"a\", \"b\"], [\"traceparent\", \"00-" TRACE "-" PARENT "-01\"]]");
	assert_taken("[[\"traceparent\",\"00-" TRACE "-" PARENT "-03\"]]");
	assert_taken("[[\"traceparent\",\"cc-" TRACE "-" PARENT "-01-what-comes\"]]");
}

static void the_attribute_precedes_the_header_and_the_last_value_counts(void **state)
{
	(void)state;
	assert_taken("[[\"ce_traceparent\",\"00-" TRACE "-" PARENT "-01\"],"
		     "[\"traceparent\",\"00-11111111111111111111111111111111-" PARENT "-01\"]]");
	assert_taken("[[\"traceparent\",\"00-11111111111111111111111111111111-" PARENT "-01\"],"
		     "[\"traceparent\",\"00-" TRACE "-" PARENT "-01\"]]");
}

static void an_invalid_traceparent_is_ignored(void **state)
{
	(void)state;
	assert_own("[[\"traceparent\",\"00-" TRACE "-" PARENT "\"]]");
	assert_own("[[\"traceparent\",\"00-" TRACE "-" PARENT "-01-more\"]]");
	assert_own("[[\"traceparent\",\"ff-" TRACE "-" PARENT "-01\"]]");
	assert_own("[[\"traceparent\",\"cc-" TRACE "-" PARENT "-01x\"]]");
	assert_own("[[\"traceparent\",\"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01\"]]");
	assert_own("[[\"traceparent\",\"00-00000000000000000000000000000000-" PARENT "-01\"]]");
	assert_own("[[\"traceparent\",\"00-" TRACE "-0000000000000000-01\"]]");
	assert_own("[[\"traceparent\",\"00_" TRACE "-" PARENT "-01\"]]");
	assert_own("[[\"traceparent\",null]]");
	assert_own("[[\"traceparent\",{\"base64\":\"/w==\"}]]");
	assert_own("[[\"traceparent\"");
	assert_own("[[\"traceparent\",\"00-");
	assert_own("[[\"x\",\"[\\\"traceparent\\\",\\\"00-" TRACE "-" PARENT "-01\\\"\"]]");
}

static void an_unsampled_message_is_not_traced(void **state)
{
	struct trace_context context;

	(void)state;
	assert_false(context_of(&context, "[[\"traceparent\",\"00-" TRACE "-" PARENT "-00\"]]"));
	assert_false(context_of(&context, "[[\"traceparent\",\"00-" TRACE "-" PARENT "-02\"]]"));
	assert_true(context_of(&context, NULL));
}

static void the_trace_id_alone_decides_the_sampling(void **state)
{
	int sent = 0;

	(void)state;
	for (int i = 0; i < 4000; i++) {
		struct message message = message_with("[]");
		struct trace_context context;
		char id[16];
		bool wanted;

		(void)snprintf(id, sizeof(id), "e%d", i);
		message.event_id = id;
		wanted = trace_context_of(&context, &message, 4);
		sent += wanted ? 1 : 0;
		message.offset += 1000;
		message.delivery_count = 5;
		assert_int_equal(trace_context_of(&context, &message, 4), wanted);
	}
	assert_in_range(sent, 850, 1150);
}

static void the_spans_of_a_message_have_distinct_and_stable_ids(void **state)
{
	const struct message message = message_with("[]");
	struct message other = message_with("[]");
	struct trace_context context;
	struct trace_context again;

	(void)state;
	other.offset++;
	assert_true(trace_context_of(&context, &message, 1));
	assert_true(trace_context_of(&again, &message, 1));
	assert_true(
		trace_span_id(&context, SPAN_DELIVER, 2) == trace_span_id(&again, SPAN_DELIVER, 2));
	assert_true(trace_span_id(&context, SPAN_DELIVER, 1) !=
		    trace_span_id(&context, SPAN_DELIVER, 2));
	assert_true(trace_span_id(&context, SPAN_DELIVER, 1) !=
		    trace_span_id(&context, SPAN_SETTLE, 1));
	assert_true(trace_context_of(&again, &other, 1));
	assert_true(again.trace_low == context.trace_low);
	assert_true(
		trace_span_id(&context, SPAN_RECEIVE, 0) != trace_span_id(&again, SPAN_RECEIVE, 0));
}

static void a_full_ring_accepts_nothing_until_a_span_is_released(void **state)
{
	struct ring *ring = NULL;
	struct span span = { .offset = 0 };

	(void)state;
	assert_int_equal(ring_new(&ring, 3, NULL), 0);
	for (int64_t round = 0; round < 5; round++) {
		for (int64_t i = 0; i < 3; i++) {
			span.offset = round * 10 + i;
			assert_int_equal(ring_put(ring, &span), i + 1);
		}
		assert_int_equal(ring_put(ring, &span), 0);
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(ring_at(ring, i)->offset, round * 10 + (int64_t)i);
		ring_release(ring, 2);
		assert_int_equal(ring_at(ring, 0)->offset, round * 10 + 2);
		ring_release(ring, 1);
		assert_int_equal(ring_count(ring), 0);
	}
	ring_free(ring);
}

static void a_span_is_the_json_of_otlp(void **state)
{
	const struct otlp_resource resource = { "bil\"ling", "host-1" };
	const struct span span = {
		.trace_high = 0x0af7651916cd43ddu,
		.trace_low = 0x1c,
		.id = 0xab,
		.parent = 0xb7ad6b7169203331u,
		.kind = SPAN_DELIVER,
		.start_us = 1700000000000001,
		.end_us = 1700000000500000,
		.outcome = "retry",
		.failed = true,
		.attempt = 2,
		.partition = 30,
		.offset = 9007199254740993,
		.topic = "orders",
		.event_id = "e\"1",
		.handler = "mail",
	};
	struct buf out = BUF_INIT;

	(void)state;
	otlp_begin(&out, &resource);
	otlp_add_span(&out, true, &span);
	otlp_end(&out);
	assert_string_equal(buf_str(&out),
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":["
		"{\"key\":\"service.name\",\"value\":{\"stringValue\":\"bil\\\"ling\"}},"
		"{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"host-1\"}}]},"
		"\"scopeSpans\":[{\"scope\":{\"name\":\"inboxd\",\"version\":\"" INBOXD_VERSION
		"\"},\"spans\":["
		"{\"traceId\":\"0af7651916cd43dd000000000000001c\",\"spanId\":\"00000000000000ab\","
		"\"parentSpanId\":\"b7ad6b7169203331\",\"name\":\"deliver\",\"kind\":3,"
		"\"startTimeUnixNano\":\"1700000000000001000\",\"endTimeUnixNano\":"
		"\"1700000000500000000\","
		"\"attributes\":["
		"{\"key\":\"messaging.system\",\"value\":{\"stringValue\":\"kafka\"}},"
		"{\"key\":\"messaging.destination.name\",\"value\":{\"stringValue\":\"orders\"}},"
		"{\"key\":\"messaging.destination.partition.id\",\"value\":{\"stringValue\":\"30\"}"
		"},"
		"{\"key\":\"messaging.kafka.offset\",\"value\":{\"intValue\":\"9007199254740993\"}}"
		","
		"{\"key\":\"messaging.message.id\",\"value\":{\"stringValue\":\"e\\\"1\"}},"
		"{\"key\":\"messaging.operation.name\",\"value\":{\"stringValue\":\"deliver\"}},"
		"{\"key\":\"messaging.operation.type\",\"value\":{\"stringValue\":\"process\"}},"
		"{\"key\":\"inboxd.outcome\",\"value\":{\"stringValue\":\"retry\"}},"
		"{\"key\":\"inboxd.attempt\",\"value\":{\"intValue\":\"2\"}},"
		"{\"key\":\"inboxd.handler\",\"value\":{\"stringValue\":\"mail\"}}],"
		"\"status\":{\"code\":2,\"message\":\"retry\"}}]}]}]}");
	buf_fini(&out);
}

static void a_span_omits_missing_parent_handler_and_error(void **state)
{
	const struct span span = {
		.kind = SPAN_RECEIVE, .id = 1, .outcome = "received", .topic = "t"
	};
	struct buf out = BUF_INIT;

	(void)state;
	otlp_add_span(&out, false, &span);
	assert_true(strncmp(buf_str(&out), ",{\"traceId\"", 11) == 0);
	assert_null(strstr(buf_str(&out), "parentSpanId"));
	assert_null(strstr(buf_str(&out), "inboxd.handler"));
	assert_null(strstr(buf_str(&out), "inboxd.attempt"));
	assert_null(strstr(buf_str(&out), "db.system"));
	assert_non_null(strstr(buf_str(&out), "\"status\":{}}"));
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_trace_comes_from_the_header),
		cmocka_unit_test(the_attribute_precedes_the_header_and_the_last_value_counts),
		cmocka_unit_test(an_invalid_traceparent_is_ignored),
		cmocka_unit_test(an_unsampled_message_is_not_traced),
		cmocka_unit_test(the_trace_id_alone_decides_the_sampling),
		cmocka_unit_test(the_spans_of_a_message_have_distinct_and_stable_ids),
		cmocka_unit_test(a_full_ring_accepts_nothing_until_a_span_is_released),
		cmocka_unit_test(a_span_is_the_json_of_otlp),
		cmocka_unit_test(a_span_omits_missing_parent_handler_and_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
