/* The tables of `inboxd forward`: the verdict of each status, the texts of headers, and the idempotency key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "bridge/forward/header_text.h"
#include "bridge/forward/status_table.h"

static void each_status_has_a_verdict(void **state)
{
	static const struct {
		long status;
		enum bridge_status verdict;
	} rows[] = {
		{ 200, BRIDGE_DONE },
		{ 204, BRIDGE_DONE },
		{ 299, BRIDGE_DONE },
		{ 301, BRIDGE_RETRY },
		{ 399, BRIDGE_RETRY },
		{ 400, BRIDGE_DEAD },
		{ 401, BRIDGE_DEAD },
		{ 404, BRIDGE_DEAD },
		{ 408, BRIDGE_RETRY },
		{ 409, BRIDGE_RETRY },
		{ 410, BRIDGE_DEAD },
		{ 425, BRIDGE_RETRY },
		{ 429, BRIDGE_RETRY },
		{ 499, BRIDGE_DEAD },
		{ 500, BRIDGE_RETRY },
		{ 599, BRIDGE_RETRY },
		{ 0, BRIDGE_RETRY },
		{ 199, BRIDGE_RETRY },
		{ 600, BRIDGE_RETRY },
		{ -1, BRIDGE_RETRY },
	};
	struct status_table table;

	(void)state;
	status_table_init(&table);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(status_table_find(&table, rows[i].status), rows[i].verdict);
}

static void a_later_row_replaces_an_earlier_one(void **state)
{
	struct status_table table;
	struct err err = ERR_INIT;

	(void)state;
	status_table_init(&table);
	assert_int_equal(status_table_change(&table, "4xx=retry,404=done,503=snooze", &err), 0);
	assert_int_equal(status_table_find(&table, 400), BRIDGE_RETRY);
	assert_int_equal(status_table_find(&table, 404), BRIDGE_DONE);
	assert_int_equal(status_table_find(&table, 503), BRIDGE_SNOOZE);
	assert_int_equal(status_table_find(&table, 504), BRIDGE_RETRY);
	assert_int_equal(status_table_change(&table, "4xx=dead", &err), 0);
	assert_int_equal(status_table_find(&table, 404), BRIDGE_DEAD);
}

static void refused_credentials_that_can_be_renewed_spend_no_attempt(void **state)
{
	struct status_table table;
	struct err err = ERR_INIT;

	(void)state;
	status_table_init(&table);
	assert_int_equal(status_table_change(&table, "403=dead", &err), 0);
	status_table_renews_credentials(&table);
	assert_int_equal(status_table_find(&table, 401), BRIDGE_SNOOZE);
	assert_int_equal(status_table_find(&table, 402), BRIDGE_DEAD);
	assert_int_equal(status_table_find(&table, 403), BRIDGE_DEAD);
	assert_int_equal(status_table_change(&table, "401=done", &err), 0);
	status_table_renews_credentials(&table);
	assert_int_equal(status_table_find(&table, 401), BRIDGE_DONE);
}

static void a_status_that_asks_to_come_later_does_not_blame_the_message(void **state)
{
	struct status_table table;
	struct err err = ERR_INIT;

	(void)state;
	status_table_init(&table);
	assert_true(status_table_is_busy(&table, 429, false));
	assert_true(status_table_is_busy(&table, 429, true));
	assert_true(status_table_is_busy(&table, 503, true));
	assert_false(status_table_is_busy(&table, 503, false));
	assert_false(status_table_is_busy(&table, 500, true));
	assert_false(status_table_is_busy(&table, 0, true));
	assert_int_equal(status_table_change(&table, "429=retry,5xx=snooze", &err), 0);
	assert_false(status_table_is_busy(&table, 429, true));
	assert_false(status_table_is_busy(&table, 503, true));
}

static void a_malformed_row_is_named(void **state)
{
	static const char *const rows[] = { "404", "404=", "404=maybe", "600=done", "099=done",
		"4x4=done", "40=done", "4xx:done", "=done", "404=settled", "404=done,",
		"404=done,x", "404=done dead" };
	struct status_table table;

	(void)state;
	status_table_init(&table);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err err = ERR_INIT;
		const int r = status_table_change(&table, rows[i], &err);

		/* a comma at the end is harmless */
		if (strcmp(rows[i], "404=done,") == 0)
			assert_int_equal(r, 0);
		else if (r != FAULT_USAGE || strstr(err.text, "STATUS=VERDICT") == NULL)
			fail_msg("%s: %d %s", rows[i], r, err.text);
	}
}

static void assert_header(const char *expected, struct bytes value)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;

	header_text_add(&out, value, "");
	assert_string_equal(buf_str(&out), expected);
}

static void a_header_is_encoded_as_cloudevents_asks(void **state)
{
	(void)state;
	assert_header("", BYTES_LITERAL(""));
	assert_header("order.created", BYTES_LITERAL("order.created"));
	assert_header("say%20%22%C3%A4%22%20100%25", BYTES_LITERAL("say \"\xc3\xa4\" 100%"));
	assert_header("!#~:", BYTES_LITERAL("!#~:"));
}

static void a_value_cannot_end_its_header(void **state)
{
	(void)state;
	assert_header("a%0D%0AX-Admin:%20yes%00%7F", BYTES_LITERAL("a\r\nX-Admin: yes\0\x7f"));
}

static void assert_key(const char *expected, const char *source, const char *id)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;

	header_text_add_idempotency_key(&out, bytes_of(source), bytes_of(id));
	assert_string_equal(buf_str(&out), expected);
}

static void different_events_have_different_keys(void **state)
{
	(void)state;
	assert_key("orders:A234", "orders", "A234");
	assert_key("a:b:c", "a", "b:c");
	assert_key("a%3Ab:c", "a:b", "c");
	assert_key("https%3A//shop/:7", "https://shop/", "7");
}

static void assert_trace(size_t expected, const char *text)
{
	const struct bytes cut = header_text_trace(bytes_of(text));

	assert_int_equal(cut.length, expected);
	assert_ptr_equal(cut.data, expected == 0 ? NULL : text);
}

static void a_long_trace_state_loses_whole_entries_at_its_end(void **state)
{
	char text[1200];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_trace(0, text);
	text[512] = ',';
	assert_trace(512, text);
	text[512] = 'x';
	text[513] = ',';
	assert_trace(0, text);
	text[100] = ',';
	assert_trace(100, text);
	text[512] = '\0';
	assert_trace(512, text);
	assert_ptr_equal(header_text_trace((struct bytes){ NULL, 0 }).data, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_status_has_a_verdict),
		cmocka_unit_test(a_later_row_replaces_an_earlier_one),
		cmocka_unit_test(refused_credentials_that_can_be_renewed_spend_no_attempt),
		cmocka_unit_test(a_status_that_asks_to_come_later_does_not_blame_the_message),
		cmocka_unit_test(a_malformed_row_is_named),
		cmocka_unit_test(a_header_is_encoded_as_cloudevents_asks),
		cmocka_unit_test(a_value_cannot_end_its_header),
		cmocka_unit_test(different_events_have_different_keys),
		cmocka_unit_test(a_long_trace_state_loses_whole_entries_at_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
