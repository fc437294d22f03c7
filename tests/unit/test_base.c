/* The base layer's small modules: err, buf, backoff, queue, clock, log, digest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "alloc_fail.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text/digest.h"
#include "base/text/numbers.h"
#include "base/threads/queue.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"

/* err */

static void an_error_keeps_fault_and_text(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&err, FAULT_CONFIG, "key %s: %d", "a", 7), FAULT_CONFIG);
	assert_int_equal(err.fault, FAULT_CONFIG);
	assert_string_equal(err.text, "key a: 7");
	assert_string_equal(err.state, "");
}

static void an_error_text_is_one_line(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	err_set(&err, FAULT_DATABASE, "first\nsecond\tthird\x7f.\r\n\n");
	assert_string_equal(err.text, "first second third .");
}

static void an_error_text_is_cut_to_its_limit(void **state)
{
	struct err err = ERR_INIT;
	char text[3000];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	err_set(&err, FAULT_KAFKA, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	err_prefix(&err, "reading %s", "topic");
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_memory_equal(err.text, "reading topic: xxx", 18);
}

static void a_prefix_is_put_before_the_error_text(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	err_set(&err, FAULT_SOCKET, "no such file");
	assert_int_equal(err_prefix(&err, "opening %s", "/x"), FAULT_SOCKET);
	assert_string_equal(err.text, "opening /x: no such file");
}

static void advice_is_at_the_end_of_the_text_and_can_be_found(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	err_set(&err, FAULT_CHECK, "no topic");
	assert_string_equal(err_advice(&err), "");
	assert_int_equal(err_words(&err), 8);
	assert_int_equal(err_advise(&err, "create %s", "it"), FAULT_CHECK);
	assert_string_equal(err.text, "no topic: create it");
	assert_string_equal(err_advice(&err), "create it");
	assert_int_equal(err_words(&err), 8);
	err_prefix(&err, "check");
	assert_string_equal(err.text, "check: no topic: create it");
	assert_string_equal(err_advice(&err), "create it");
	assert_int_equal(err_words(&err), 15);
	err_set(&err, FAULT_CHECK, "another");
	assert_string_equal(err_advice(&err), "");
}

static void advice_that_does_not_fit_is_omitted(void **state)
{
	struct err err = ERR_INIT;
	char text[sizeof(err.text)];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	err_set(&err, FAULT_KAFKA, "%s", text);
	err_advise(&err, "wait");
	assert_string_equal(err_advice(&err), "");
	assert_int_equal(err_words(&err), sizeof(text) - 1);
	text[1000] = '\0';
	err_set(&err, FAULT_KAFKA, "%s", text);
	err_advise(&err, "%s", "a long advice that is cut at the end");
	assert_string_equal(err_advice(&err), "a long advice that is");
	err_prefix(&err, "a prefix that leaves no room for advice");
	assert_string_equal(err_advice(&err), "");
	assert_int_equal(err_words(&err), sizeof(text) - 1);
	assert_true(err_advise(NULL, "x") < 0);
}

static void without_an_err_only_the_fault_is_returned(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, FAULT_CHECK, "x"), FAULT_CHECK);
	assert_int_equal(err_memory(NULL), FAULT_MEMORY);
	assert_true(err_prefix(NULL, "x") < 0);
}

static void a_fault_is_the_negated_exit_code(void **state)
{
	const int rows[][2] = {
		{ 0, 0 },
		{ FAULT_USAGE, 1 },
		{ FAULT_CONFIG, 2 },
		{ FAULT_DATABASE, 3 },
		{ FAULT_KAFKA, 4 },
		{ FAULT_SOCKET, 5 },
		{ FAULT_CHECK, 6 },
		{ FAULT_INTERNAL, 70 },
		{ FAULT_MEMORY, 70 },
		{ FAULT_OUTPUT, 74 },
		{ 1, 70 },
		{ -1000, 70 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(err_exit_code(rows[i][0]), rows[i][1]);
}

/* buf */

static void a_buffer_grows_with_what_is_added(void **state)
{
	struct buf buf = BUF_INIT;

	(void)state;
	buf_add_str(&buf, "one");
	buf_add_char(&buf, ' ');
	buf_addf(&buf, "%s %d", "two", 3);
	buf_add(&buf, "", 0);
	assert_string_equal(buf_str(&buf), "one two 3");
	assert_int_equal(buf.length, 9);
	for (int i = 0; i < 1000; i++)
		buf_add_str(&buf, "0123456789");
	assert_int_equal(buf.length, 10009);
	assert_true(buf_ok(&buf));
	buf_fini(&buf);
	assert_null(buf.data);
}

static void an_empty_buffer_is_an_empty_string(void **state)
{
	struct buf buf = BUF_INIT;

	(void)state;
	assert_string_equal(buf_str(&buf), "");
	buf_fini(&buf);
}

static void a_limit_breaks_the_buffer_and_a_reset_repairs_it(void **state)
{
	struct buf buf = { .limit = 4 };

	(void)state;
	buf_add_str(&buf, "abcd");
	assert_true(buf_ok(&buf));
	buf_add_char(&buf, 'e');
	assert_false(buf_ok(&buf));
	assert_int_equal(buf.length, 4);
	assert_string_equal(buf_str(&buf), "");
	buf_reset(&buf);
	buf_add_str(&buf, "xy");
	assert_true(buf_ok(&buf));
	buf_fini(&buf);
}

static void a_length_that_overflows_breaks_the_buffer(void **state)
{
	struct buf buf = BUF_INIT;

	(void)state;
	buf_add_char(&buf, 'x');
	assert_null(buf_reserve(&buf, SIZE_MAX));
	assert_false(buf_ok(&buf));
	buf_fini(&buf);
}

static void a_failed_append_breaks_the_buffer(void **state)
{
	struct buf buf = BUF_INIT;

	(void)state;
	alloc_fail_at(1);
	buf_add_str(&buf, "lost");
	assert_true(alloc_fail_never());
	buf_add_str(&buf, "also lost");
	buf_addf(&buf, "%d", 1);
	assert_false(buf_ok(&buf));
	assert_int_equal(buf.length, 0);
	assert_string_equal(buf_str(&buf), "");
	buf_fini(&buf);
}

static void absent_bytes_are_not_empty_bytes(void **state)
{
	const struct bytes absent = { NULL, 0 };
	const struct bytes empty = { "", 0 };

	(void)state;
	assert_true(bytes_equal(absent, absent));
	assert_true(bytes_equal(empty, bytes_of("")));
	assert_false(bytes_equal(absent, empty));
	assert_false(bytes_equal(bytes_of("a"), bytes_of("b")));
	assert_false(bytes_equal(bytes_of("a"), bytes_of("ab")));
	assert_null(bytes_of(NULL).data);
}

/* duration */

static void durations_are_a_number_and_a_unit(void **state)
{
	static const struct {
		const char *text;
		int64_t ms;
	} rows[] = {
		{ "0", 0 },
		{ "7ms", 7 },
		{ "30s", 30000 },
		{ "5m", 300000 },
		{ "2h", 7200000 },
		{ "7d", 604800000 },
		{ "2w", 1209600000 },
		{ "1y", 31536000000 },
		{ "9223372036854775807ms", INT64_MAX },
		{ "9223372036854775808ms", INT64_MAX },
		{ "99999999999999999999y", INT64_MAX },
	};
	static const char *const wrong[] = { "", "5", "00", "s", "-1s", "1.5s", "1 s", "1S", "1min",
		"never", "1d12h" };
	int64_t ms;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ms = -1;
		assert_true(duration_read(rows[i].text, &ms));
		assert_int_equal(ms, rows[i].ms);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(duration_read(wrong[i], &ms));
}

static void durations_are_written_without_weeks(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} rows[] = { { 0, "0ms" }, { 1500, "1500ms" }, { 90000, "90s" }, { 3600000, "1h" },
		{ 1209600000, "14d" }, { 63072000000, "2y" } };
	char text[DURATION_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		duration_text(rows[i].ms, text);
		assert_string_equal(text, rows[i].text);
	}
}

/* backoff */

static void the_backoff_bound_doubles_up_to_its_maximum(void **state)
{
	const int64_t expected[] = { 1000, 2000, 4000, 8000, 10000, 10000 };

	(void)state;
	for (int i = 0; i < 6; i++)
		assert_int_equal(backoff_bound_ms(1000, 10000, i), expected[i]);
	assert_int_equal(backoff_bound_ms(1000, 10000, 1000000000), 10000);
	assert_int_equal(backoff_bound_ms(20000, 10000, 0), 10000);
	assert_int_equal(backoff_bound_ms(0, 10000, 5), 0);
	assert_true(backoff_bound_ms(1, INT64_MAX, 1000) == INT64_MAX);
}

static void the_backoff_delay_is_random_up_to_the_bound(void **state)
{
	(void)state;
	assert_int_equal(backoff_delay_ms(1000, 10000, 1, 0), 0);
	assert_int_equal(backoff_delay_ms(1000, 10000, 1, 2000), 2000);
	assert_int_equal(backoff_delay_ms(1000, 10000, 1, 2001), 0);
	assert_true(backoff_delay_ms(1, INT64_MAX, 1000, UINT64_MAX) >= 0);
}

static void random_numbers_differ(void **state)
{
	(void)state;
	assert_true(random_u64() != random_u64());
}

/* queue */

static void a_queue_is_first_in_first_out(void **state)
{
	struct queue *queue = NULL;
	int items[5];
	void *item = NULL;

	(void)state;
	assert_int_equal(queue_new(&queue, 3, NULL), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(queue_push(queue, &items[i], 0), 0);
		if (i < 2)
			continue; /* keeps two inside, so that the ring goes round */
		assert_int_equal(queue_pop(queue, &item, 0), 0);
		assert_ptr_equal(item, &items[i - 2]);
	}
	assert_int_equal(queue_length(queue), 2);
	queue_free(queue);
}

static void a_full_or_empty_queue_times_out(void **state)
{
	struct queue *queue = NULL;
	int one = 1;
	void *item = NULL;

	(void)state;
	assert_int_equal(queue_new(&queue, 1, NULL), 0);
	assert_int_equal(queue_pop(queue, &item, 1), QUEUE_TIMEOUT);
	assert_int_equal(queue_push(queue, &one, 0), 0);
	assert_int_equal(queue_push(queue, &one, 1), QUEUE_TIMEOUT);
	assert_int_equal(queue_length(queue), 1);
	queue_free(queue);
}

/* Times this thread gave the processor away. */
static long waits(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

static void a_timeout_of_zero_does_not_wait(void **state)
{
	struct queue *queue = NULL;
	void *item = NULL;
	int one = 1;
	long before;

	(void)state;
	assert_int_equal(queue_new(&queue, 1, NULL), 0);
	before = waits();
	for (int i = 0; i < 1000; i++)
		assert_int_equal(queue_pop(queue, &item, 0), QUEUE_TIMEOUT);
	assert_int_equal(queue_push(queue, &one, 0), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(queue_push(queue, &one, 0), QUEUE_TIMEOUT);
	assert_true(waits() - before < 500);
	queue_free(queue);
}

static void a_closed_queue_returns_its_items_and_accepts_none(void **state)
{
	struct queue *queue = NULL;
	int one = 1;
	void *item = NULL;

	(void)state;
	assert_int_equal(queue_new(&queue, 2, NULL), 0);
	assert_int_equal(queue_push(queue, &one, 0), 0);
	queue_close(queue);
	assert_int_equal(queue_push(queue, &one, 10000), QUEUE_CLOSED);
	assert_int_equal(queue_pop(queue, &item, 10000), 0);
	assert_ptr_equal(item, &one);
	assert_int_equal(queue_pop(queue, &item, 10000), QUEUE_CLOSED);
	queue_free(queue);
	queue_free(NULL);
}

/* One end of a queue in another thread. */
struct end {
	struct queue *queue;
	void *item;
	int result;
};

static void *pop_in_thread(void *arg)
{
	struct end *end = arg;

	end->result = queue_pop(end->queue, &end->item, 30000);
	return NULL;
}

static void *push_in_thread(void *arg)
{
	struct end *end = arg;

	end->result = queue_push(end->queue, end->item, 30000);
	return NULL;
}

static void a_waiting_reader_gets_the_pushed_item(void **state)
{
	struct end end = { .result = -1 };
	pthread_t thread;
	int one = 1;

	(void)state;
	assert_int_equal(queue_new(&end.queue, 1, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, pop_in_thread, &end), 0);
	assert_int_equal(queue_push(end.queue, &one, 0), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(end.result, 0);
	assert_ptr_equal(end.item, &one);
	queue_free(end.queue);
}

static void a_waiting_writer_gets_the_free_place(void **state)
{
	struct end end = { .result = -1 };
	pthread_t thread;
	int items[2];
	void *item = NULL;

	(void)state;
	assert_int_equal(queue_new(&end.queue, 1, NULL), 0);
	assert_int_equal(queue_push(end.queue, &items[0], 0), 0);
	end.item = &items[1];
	assert_int_equal(pthread_create(&thread, NULL, push_in_thread, &end), 0);
	assert_int_equal(queue_pop(end.queue, &item, 0), 0);
	assert_ptr_equal(item, &items[0]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(end.result, 0);
	assert_int_equal(queue_pop(end.queue, &item, 0), 0);
	assert_ptr_equal(item, &items[1]);
	queue_free(end.queue);
}

static void closing_wakes_waiting_threads(void **state)
{
	struct end end = { .result = -1 };
	int64_t start = clock_now_ms();
	pthread_t thread;

	(void)state;
	assert_int_equal(queue_new(&end.queue, 1, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, pop_in_thread, &end), 0);
	queue_close(end.queue);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(end.result, QUEUE_CLOSED);
	assert_true(clock_now_ms() - start < 30000);
	queue_free(end.queue);
}

static void a_queue_without_memory_is_a_fault(void **state)
{
	struct queue *queue = NULL;

	(void)state;
	for (size_t n = 1; n <= 2; n++) {
		alloc_fail_at(n);
		assert_int_equal(queue_new(&queue, 4, NULL), FAULT_MEMORY);
		assert_true(alloc_fail_never());
		assert_null(queue);
	}
}

/* clock */

static void times_are_written_as_rfc_3339(void **state)
{
	const struct {
		int64_t unix_ms;
		const char *text;
	} rows[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ 1795239720000, "2026-11-21T05:42:00.000Z" },
		{ 951782400123, "2000-02-29T00:00:00.123Z" },
		{ -1, "1969-12-31T23:59:59.999Z" },
		{ -1000, "1969-12-31T23:59:59.000Z" },
		{ 253402300799999, "9999-12-31T23:59:59.999Z" },
		{ 253402300800000, "9999-12-31T23:59:59.999Z" },
		{ INT64_MAX, "9999-12-31T23:59:59.999Z" },
		{ -62167219200000, "0000-01-01T00:00:00.000Z" },
		{ -62167219200001, "0000-01-01T00:00:00.000Z" },
		{ INT64_MIN, "0000-01-01T00:00:00.000Z" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[32];

		clock_format_ms(rows[i].unix_ms, text);
		assert_string_equal(text, rows[i].text);
	}
}

static void every_day_of_the_calendar_matches_the_c_library(void **state)
{
	(void)state;
	for (int64_t day = -719528; day <= 2932896; day++) {
		time_t seconds = (time_t)day * 86400;
		char expected[64];
		char text[32];
		struct tm utc;

		assert_non_null(gmtime_r(&seconds, &utc));
		(void)snprintf(expected, sizeof(expected), "%04d-%02d-%02dT00:00:00.000Z",
			utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
		clock_format_ms(day * 86400000, text);
		assert_string_equal(text, expected);
	}
}

static void numbers_are_written_as_printf_writes_them(void **state)
{
	const int64_t numbers[] = { 0, 7, 10, 99, 100, -1, -10, 1234567890123, INT64_MAX,
		INT64_MIN };

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		char expected[DIGITS_MAX + 1];
		char text[DIGITS_MAX + 1];

		(void)snprintf(expected, sizeof(expected), "%lld", (long long)numbers[i]);
		*digits_put(text, numbers[i]) = '\0';
		assert_string_equal(text, expected);
	}
}

static void the_monotonic_clock_never_goes_back(void **state)
{
	int64_t first = clock_now_us();

	(void)state;
	assert_true(clock_now_us() >= first);
	assert_true(clock_now_ms() >= first / 1000);
	assert_true(clock_wall_ms() > 1600000000000);
}

/* log */

/* What is written to stderr while `write_lines` runs. */
static void capture(void (*write_lines)(void), char *text, size_t size)
{
	FILE *file = tmpfile();
	int old = dup(STDERR_FILENO);
	size_t length;

	assert_non_null(file);
	assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
	write_lines();
	assert_true(dup2(old, STDERR_FILENO) >= 0);
	(void)close(old);
	rewind(file);
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	(void)fclose(file);
}

static void write_one_of_each(void)
{
	log_warn("thing_lost", LOG_STR("bare", "x.y-z"), LOG_STR("quoted", "a \"b\"\n"),
		LOG_STR("none", NULL), LOG_STR("empty", ""), LOG_INT("n", -7));
}

static void a_log_line_can_be_logfmt(void **state)
{
	char text[512];

	(void)state;
	log_configure(LOG_INFO, false);
	capture(write_one_of_each, text, sizeof(text));
	assert_memory_equal(text, "time=20", 7);
	assert_string_equal(strchr(text, ' '),
		" level=warn event=thing_lost bare=x.y-z quoted=\"a \\\"b\\\"\\u000a\" none=null "
		"empty=\"\" n=-7\n");
}

static void a_log_line_can_be_json(void **state)
{
	char text[512];

	(void)state;
	log_configure(LOG_INFO, true);
	capture(write_one_of_each, text, sizeof(text));
	assert_memory_equal(text, "{\"time\":\"20", 11);
	assert_string_equal(strchr(text, ','),
		",\"level\":\"warn\",\"event\":\"thing_lost\",\"bare\":\"x.y-z\",\"quoted\":"
		"\"a \\\"b\\\"\\u000a\",\"none\":null,\"empty\":\"\",\"n\":-7}\n");
}

static void write_what_is_no_text(void)
{
	log_warn("thing_lost", LOG_STR("half", "a\xc3"), LOG_STR("good", "\xc3\xa9"),
		LOG_STR("quoted", "\xff \xed\xa0\x80"));
}

static void a_log_line_is_utf8_with_any_input(void **state)
{
	char text[512];

	(void)state;
	log_configure(LOG_INFO, false);
	capture(write_what_is_no_text, text, sizeof(text));
	assert_string_equal(strchr(text, ' '),
		" level=warn event=thing_lost half=\"a\xef\xbf\xbd\" good=\xc3\xa9 "
		"quoted=\"\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"\n");
}

static void write_all_levels(void)
{
	log_debug("one");
	log_info("two");
	log_warn("three");
	log_error("four");
}

static void log_lines_below_the_threshold_are_not_written(void **state)
{
	char text[512];

	(void)state;
	log_configure(LOG_WARN, false);
	capture(write_all_levels, text, sizeof(text));
	assert_null(strstr(text, "one"));
	assert_null(strstr(text, "two"));
	assert_non_null(strstr(text, "event=three\n"));
	assert_non_null(strstr(text, "level=error event=four\n"));
	assert_false(log_enabled(LOG_INFO));
	log_configure(LOG_INFO, false);
}

static void a_log_line_without_memory_is_dropped_completely(void **state)
{
	char text[512];

	(void)state;
	log_configure(LOG_INFO, false);
	alloc_fail_at(1);
	write_one_of_each();
	assert_true(alloc_fail_never());
	capture(write_one_of_each, text, sizeof(text));
	assert_non_null(strstr(text, "thing_lost"));
}

static void levels_are_parsed_by_name(void **state)
{
	enum log_level level = LOG_INFO;

	(void)state;
	assert_int_equal(log_level_parse("error", &level), 0);
	assert_int_equal(level, LOG_ERROR);
	assert_int_equal(log_level_parse("debug", &level), 0);
	assert_int_equal(level, LOG_DEBUG);
	assert_int_equal(log_level_parse("loud", &level), -1);
	assert_int_equal(level, LOG_DEBUG);
}

/* digest */

static void a_digest_is_sha256(void **state)
{
	static const unsigned char of_abc[32] = { 0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
		0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
		0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad };
	struct digester *digester = NULL;
	unsigned char digest[32];

	(void)state;
	assert_int_equal(digester_new(&digester, NULL), 0);
	assert_int_equal(digester_sha256(digester, bytes_of("abc"), digest), 0);
	assert_memory_equal(digest, of_abc, 32);
	assert_true(digest_prefix(digest) == 0xba7816bf8f01cfeaULL);
	assert_int_equal(digester_sha256(digester, bytes_of(NULL), digest), 0);
	assert_true(digest_prefix(digest) == 0xe3b0c44298fc1c14ULL);
	assert_int_equal(digester_sha256(digester, bytes_of("abc"), digest), 0);
	assert_memory_equal(digest, of_abc, 32);
	digester_free(digester);
	digester_free(NULL);
}

static void a_digester_without_memory_is_a_fault(void **state)
{
	struct digester *digester = NULL;

	(void)state;
	alloc_fail_at(1);
	assert_int_equal(digester_new(&digester, NULL), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	assert_null(digester);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_keeps_fault_and_text),
		cmocka_unit_test(an_error_text_is_one_line),
		cmocka_unit_test(an_error_text_is_cut_to_its_limit),
		cmocka_unit_test(a_prefix_is_put_before_the_error_text),
		cmocka_unit_test(advice_is_at_the_end_of_the_text_and_can_be_found),
		cmocka_unit_test(advice_that_does_not_fit_is_omitted),
		cmocka_unit_test(without_an_err_only_the_fault_is_returned),
		cmocka_unit_test(durations_are_a_number_and_a_unit),
		cmocka_unit_test(durations_are_written_without_weeks),
		cmocka_unit_test(a_fault_is_the_negated_exit_code),
		cmocka_unit_test(a_buffer_grows_with_what_is_added),
		cmocka_unit_test(an_empty_buffer_is_an_empty_string),
		cmocka_unit_test(a_limit_breaks_the_buffer_and_a_reset_repairs_it),
		cmocka_unit_test(a_length_that_overflows_breaks_the_buffer),
		cmocka_unit_test(a_failed_append_breaks_the_buffer),
		cmocka_unit_test(absent_bytes_are_not_empty_bytes),
		cmocka_unit_test(the_backoff_bound_doubles_up_to_its_maximum),
		cmocka_unit_test(the_backoff_delay_is_random_up_to_the_bound),
		cmocka_unit_test(random_numbers_differ),
		cmocka_unit_test(a_queue_is_first_in_first_out),
		cmocka_unit_test(a_full_or_empty_queue_times_out),
		cmocka_unit_test(a_timeout_of_zero_does_not_wait),
		cmocka_unit_test(a_closed_queue_returns_its_items_and_accepts_none),
		cmocka_unit_test(a_waiting_reader_gets_the_pushed_item),
		cmocka_unit_test(a_waiting_writer_gets_the_free_place),
		cmocka_unit_test(closing_wakes_waiting_threads),
		cmocka_unit_test(a_queue_without_memory_is_a_fault),
		cmocka_unit_test(times_are_written_as_rfc_3339),
		cmocka_unit_test(every_day_of_the_calendar_matches_the_c_library),
		cmocka_unit_test(numbers_are_written_as_printf_writes_them),
		cmocka_unit_test(the_monotonic_clock_never_goes_back),
		cmocka_unit_test(a_log_line_is_utf8_with_any_input),
		cmocka_unit_test(a_log_line_can_be_logfmt),
		cmocka_unit_test(a_log_line_can_be_json),
		cmocka_unit_test(log_lines_below_the_threshold_are_not_written),
		cmocka_unit_test(a_log_line_without_memory_is_dropped_completely),
		cmocka_unit_test(levels_are_parsed_by_name),
		cmocka_unit_test(a_digest_is_sha256),
		cmocka_unit_test(a_digester_without_memory_is_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
