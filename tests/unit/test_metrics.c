/* Series, their numbers and both text formats; and the table of the program's own metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "base/cleanup.h"
#include "report/meters.h"
#include "report/metrics.h"

enum { SENT, LAG, LENGTH, SECONDS, ROUND, ENDED, FAMILIES };

static const double bounds[] = { 0.5, 1, 2.5, 0 };

static const struct metric_family families[FAMILIES] = {
	[SENT] = { "t_sent_total", METRIC_COUNTER, "Sent.", { "topic" } },
	[LAG] = { "t_lag", METRIC_GAUGE, "Lag.", { "topic", "partition" } },
	[LENGTH] = { "t_length", METRIC_GAUGE, "Length, \"quoted\" \\ and\nbroken." },
	[SECONDS] = { "t_seconds", METRIC_HISTOGRAM, "Time.", { "handler" }, bounds },
	[ROUND] = { "t_round_seconds", METRIC_HISTOGRAM, "Round.", .bounds = bounds },
	[ENDED] = { "t_ended_total", METRIC_COUNTER, "Ended.", { "handler", "how", "consumer" } },
};

static int made(void **state)
{
	struct metrics *metrics;

	if (metrics_new(&metrics, families, FAMILIES, NULL) < 0)
		return -1;
	*state = metrics;
	return 0;
}

static int freed(void **state)
{
	metrics_free(*state);
	return 0;
}

/* The page; valid until the next call. */
static const char *page(struct metrics *metrics, bool openmetrics)
{
	static char text[1 << 20];
	CLEANUP(buf_fini) struct buf out = BUF_INIT;

	metrics_render(metrics, openmetrics, &out);
	assert_true(buf_ok(&out));
	(void)snprintf(text, sizeof(text), "%s", buf_str(&out));
	return text;
}

static void assert_says(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' is not in:\n%s", part, text);
}

static void assert_never_says(const char *text, const char *part)
{
	if (strstr(text, part) != NULL)
		fail_msg("'%s' is in:\n%s", part, text);
}

static void every_family_has_help_and_type_before_its_first_series(void **state)
{
	const char *text = page(*state, false);

	assert_says(text, "# HELP t_sent_total Sent.\n# TYPE t_sent_total counter\n");
	assert_says(text, "# TYPE t_lag gauge\n");
	assert_says(text, "# TYPE t_seconds histogram\n");
	assert_never_says(text, "t_sent_total{");
	assert_never_says(text, "# EOF");
}

static void a_family_without_labels_exists_from_the_start(void **state)
{
	const char *text = page(*state, false);

	assert_says(text, "\nt_length 0\n");
	assert_says(text, "\nt_round_seconds_bucket{le=\"+Inf\"} 0\n");
	assert_says(text, "\nt_round_seconds_sum 0\nt_round_seconds_count 0\n");
}

static void the_same_labels_are_the_same_series(void **state)
{
	struct metric *orders = metrics_get(*state, SENT, "orders", NULL);

	assert_ptr_equal(orders, metrics_get(*state, SENT, "orders", NULL));
	assert_ptr_not_equal(orders, metrics_get(*state, SENT, "payments", NULL));
	assert_ptr_not_equal(
		metrics_get(*state, LAG, "orders", "0"), metrics_get(*state, LAG, "orders", "1"));
}

static void labels_are_copied(void **state)
{
	char topic[] = "orders";

	metric_add(metrics_get(*state, SENT, topic, NULL), 1);
	topic[0] = 'X';
	assert_says(page(*state, false), "t_sent_total{topic=\"orders\"} 1\n");
}

static void a_counter_never_falls(void **state)
{
	struct metric *sent = metrics_get(*state, SENT, "orders", NULL);

	metric_add(sent, 2);
	metric_add(sent, 40);
	metric_add(sent, -5);
	assert_true(metric_value(sent) == 42);
	assert_says(page(*state, false), "t_sent_total{topic=\"orders\"} 42\n");
}

static void a_counter_counts_beyond_the_precision_of_a_double(void **state)
{
	struct metric *sent = metrics_get(*state, SENT, "orders", NULL);

	metric_add(sent, INT64_C(1) << 53);
	metric_add(sent, 1);
	assert_says(page(*state, false), "t_sent_total{topic=\"orders\"} 9007199254740993\n");
}

static void a_gauge_is_set_and_moved_both_ways(void **state)
{
	struct metric *length = metrics_get(*state, LENGTH, NULL, NULL);

	metric_set(length, 10.5);
	metric_add(length, 2);
	metric_add(length, -1);
	assert_true(metric_value(length) == 11.5);
	assert_says(page(*state, false), "\nt_length 11.5\n");
}

static void whole_numbers_have_no_point_and_special_ones_a_name(void **state)
{
	struct metric *length = metrics_get(*state, LENGTH, NULL, NULL);
	const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 33554432.0, "\nt_length 33554432\n" },
		{ -3.0, "\nt_length -3\n" },
		{ 0.001, "\nt_length 0.001\n" },
		{ 1e18, "\nt_length 1e+18\n" },
		{ (double)NAN, "\nt_length NaN\n" },
		{ (double)INFINITY, "\nt_length +Inf\n" },
		{ (double)-INFINITY, "\nt_length -Inf\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		metric_set(length, cases[i].value);
		assert_says(page(*state, false), cases[i].text);
	}
}

static void a_histogram_counts_up_to_each_bound_inclusive(void **state)
{
	struct metric *seconds = metrics_get(*state, SECONDS, "billing", NULL);

	metric_observe(seconds, 0.25);
	metric_observe(seconds, 0.5);
	metric_observe(seconds, 0.75);
	metric_observe(seconds, 100);
	assert_true(metric_value(seconds) == 4);
	assert_says(page(*state, false), "t_seconds_bucket{handler=\"billing\",le=\"0.5\"} 2\n"
					 "t_seconds_bucket{handler=\"billing\",le=\"1\"} 3\n"
					 "t_seconds_bucket{handler=\"billing\",le=\"2.5\"} 3\n"
					 "t_seconds_bucket{handler=\"billing\",le=\"+Inf\"} 4\n"
					 "t_seconds_sum{handler=\"billing\"} 101.5\n"
					 "t_seconds_count{handler=\"billing\"} 4\n");
}

static void a_negative_or_missing_time_counts_as_zero(void **state)
{
	struct metric *seconds = metrics_get(*state, SECONDS, "billing", NULL);

	metric_observe(seconds, -3);
	metric_observe(seconds, (double)NAN);
	assert_says(page(*state, false), "le=\"0.5\"} 2\n");
	assert_says(page(*state, false), "t_seconds_sum{handler=\"billing\"} 0\n");
}

static void the_sum_of_a_histogram_does_not_overflow(void **state)
{
	struct metric *seconds = metrics_get(*state, SECONDS, "billing", NULL);

	for (int i = 0; i < 1000000; i++)
		metric_observe(seconds, 604800);
	assert_says(page(*state, false), "t_seconds_sum{handler=\"billing\"} 604800000000\n");
}

static void series_are_sorted(void **state)
{
	(void)metrics_get(*state, LAG, "b", "1");
	(void)metrics_get(*state, LAG, "a", "2");
	(void)metrics_get(*state, LAG, "b", "0");
	(void)metrics_get(*state, LAG, "a", "1");
	assert_says(page(*state, false), "t_lag{topic=\"a\",partition=\"1\"} 0\n"
					 "t_lag{topic=\"a\",partition=\"2\"} 0\n"
					 "t_lag{topic=\"b\",partition=\"0\"} 0\n"
					 "t_lag{topic=\"b\",partition=\"1\"} 0\n");
}

static void a_label_without_a_value_is_not_rendered(void **state)
{
	const char *const of_none[METRIC_LABELS] = { "index", "done", "" };
	const char *const of_search[METRIC_LABELS] = { "index", "done", "search" };
	struct metric *none = metrics_series(*state, ENDED, of_none);

	assert_ptr_equal(none, metrics_get(*state, ENDED, "index", "done"));
	metric_add(none, 2);
	metric_add(metrics_series(*state, ENDED, of_search), 3);
	assert_says(page(*state, false),
		"t_ended_total{handler=\"index\",how=\"done\"} 2\n"
		"t_ended_total{handler=\"index\",how=\"done\",consumer=\"search\"} 3\n");
	assert_true(metrics_sum(*state, ENDED) == 5);
	metrics_drop(*state, ENDED, "index", "done");
	assert_true(metrics_sum(*state, ENDED) == 3);
}

static bool is_label_of(const char *const values[METRIC_LABELS], const void *wanted)
{
	return strcmp(values[0], wanted) == 0;
}

static void series_that_are_not_kept_are_not_rendered(void **state)
{
	metric_set(metrics_get(*state, LAG, "a", "0"), 1);
	metric_set(metrics_get(*state, LAG, "b", "0"), 2);
	metrics_keep(*state, LAG, is_label_of, "b");
	assert_null(strstr(page(*state, false), "topic=\"a\""));
	assert_says(page(*state, false), "t_lag{topic=\"b\",partition=\"0\"} 2\n");
	(void)metrics_get(*state, LAG, "a", "0");
	metrics_keep(*state, LAG, is_label_of, "a");
	assert_says(page(*state, false), "t_lag{topic=\"a\",partition=\"0\"} 1\n");
	assert_null(strstr(page(*state, false), "topic=\"b\""));
}

static void label_values_and_help_are_escaped(void **state)
{
	(void)metrics_get(*state, SENT, "a\"b\\c\nd", NULL);
	assert_says(page(*state, false), "t_sent_total{topic=\"a\\\"b\\\\c\\nd\"} 0\n");
	assert_says(page(*state, false), "# HELP t_length Length, \"quoted\" \\\\ and\\nbroken.\n");
	assert_says(
		page(*state, true), "# HELP t_length Length, \\\"quoted\\\" \\\\ and\\nbroken.\n");
}

static void a_dropped_series_is_not_shown_until_it_is_used_again(void **state)
{
	struct metric *lag = metrics_get(*state, LAG, "orders", "3");

	metrics_drop(*state, LAG, "orders", "3");
	metrics_drop(*state, LAG, "orders", "4");
	metric_set(lag, 7);
	assert_never_says(page(*state, false), "t_lag{");
	assert_ptr_equal(metrics_get(*state, LAG, "orders", "3"), lag);
	assert_says(page(*state, false), "t_lag{topic=\"orders\",partition=\"3\"} 7\n");
}

/* A client that invents names must not use up the series of the others. */
static void a_removed_series_leaves_its_place(void **state)
{
	char name[16];

	for (int i = 0; i < METRICS_MAX_SERIES + 10; i++) {
		(void)snprintf(name, sizeof(name), "h%d", i);
		metric_add(metrics_get(*state, SENT, name, NULL), 1);
		metrics_remove(*state, SENT, (const char *const[METRIC_LABELS]){ name });
	}
	metrics_remove(*state, SENT, (const char *const[METRIC_LABELS]){ "unknown" });
	assert_never_says(page(*state, false), "t_sent_total{");
	metric_add(metrics_get(*state, SENT, "h7", NULL), 2);
	metric_add(metrics_get(*state, SENT, "h5", NULL), 3);
	metrics_remove(*state, SENT, (const char *const[METRIC_LABELS]){ "h5" });
	assert_says(page(*state, false), "t_sent_total{topic=\"h7\"} 2\n");
	assert_null(strstr(page(*state, false), "h5"));
}

static void openmetrics_names_counters_without_total_and_ends_with_eof(void **state)
{
	const char *text;

	metric_add(metrics_get(*state, SENT, "orders", NULL), 3);
	text = page(*state, true);
	assert_says(text, "# HELP t_sent Sent.\n# TYPE t_sent counter\n"
			  "t_sent_total{topic=\"orders\"} 3\n");
	assert_says(text, "t_round_seconds_bucket{le=\"1.0\"} 0\n");
	assert_says(text, "t_round_seconds_bucket{le=\"2.5\"} 0\n");
	assert_string_equal(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");
}

static void above_the_limit_a_series_is_writable_but_not_shown(void **state)
{
	struct metric *beyond;
	char partition[16];

	for (int i = 0; i < METRICS_MAX_SERIES; i++) {
		(void)snprintf(partition, sizeof(partition), "%d", i);
		(void)metrics_get(*state, LAG, "t", partition);
	}
	beyond = metrics_get(*state, LAG, "t", "one more");
	assert_non_null(beyond);
	metric_set(beyond, 5);
	assert_never_says(page(*state, false), "one more");
	assert_ptr_equal(beyond, metrics_get(*state, LAG, "u", "and another"));
	assert_ptr_not_equal(beyond, metrics_get(*state, LAG, "t", "7"));
}

static void *count_to_ten_thousand(void *arg)
{
	struct metrics *metrics = arg;
	struct metric *sent = metrics_get(metrics, SENT, "shared", NULL);
	struct metric *length = metrics_get(metrics, LENGTH, NULL, NULL);
	struct metric *seconds = metrics_get(metrics, SECONDS, "shared", NULL);

	for (int i = 0; i < 10000; i++) {
		metric_add(sent, 1);
		metric_add(length, 1);
		metric_observe(seconds, 0.5);
	}
	return NULL;
}

static void threads_lose_no_count(void **state)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, count_to_ten_thousand, *state), 0);
	(void)page(*state, false);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(metric_value(metrics_get(*state, SENT, "shared", NULL)) == 40000);
	assert_true(metric_value(metrics_get(*state, LENGTH, NULL, NULL)) == 40000);
	assert_says(page(*state, false), "t_seconds_sum{handler=\"shared\"} 20000\n");
}

static void without_memory_nothing_is_created_and_nothing_leaks(void **state)
{
	struct metrics *metrics = NULL;
	struct err err = ERR_INIT;
	int r = FAULT_MEMORY;

	(void)state;
	for (int n = 1; r == FAULT_MEMORY; n++) {
		assert_null(metrics);
		assert_true(n < 1000);
		alloc_fail_at(n);
		r = metrics_new(&metrics, families, FAMILIES, &err);
		alloc_fail_never();
	}
	assert_int_equal(r, 0);
	metrics_free(metrics);
}

static void without_memory_a_new_series_is_writable_but_not_shown(void **state)
{
	struct metric *metric;

	for (int n = 1; n <= 2; n++) {
		alloc_fail_at(n);
		metric = metrics_get(*state, SECONDS, "billing", NULL);
		alloc_fail_never();
		metric_observe(metric, 1);
		assert_never_says(page(*state, false), "billing");
	}
	(void)metrics_get(*state, SECONDS, "billing", NULL);
	assert_says(page(*state, false), "t_seconds_count{handler=\"billing\"} 0\n");
}

static void without_memory_a_page_fails_and_is_not_truncated(void **state)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT;

	for (int n = 1; n <= 3; n++) {
		buf_fini(&out);
		alloc_fail_at(n);
		metrics_render(*state, true, &out);
		alloc_fail_never();
		assert_false(buf_ok(&out));
	}
}

static void freeing_null_does_nothing(void **state)
{
	(void)state;
	metrics_free(NULL);
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static void assert_ascending(const double *bound)
{
	assert_non_null(bound);
	if (bound == NULL)
		return;
	assert_true(bound[0] > 0);
	for (; bound[1] > 0; bound++)
		assert_true(bound[0] < bound[1]);
}

static void every_meter_has_a_name_a_help_text_and_valid_buckets(void **state)
{
	(void)state;
	for (size_t i = 0; i < METER_COUNT; i++) {
		const struct metric_family *meter = &meters[i];

		assert_non_null(meter->name);
		assert_true(strncmp(meter->name, "inboxd_", 7) == 0 ||
			    strncmp(meter->name, "process_", 8) == 0);
		assert_true(ends_with(meter->help, "."));
		assert_int_equal(meter->kind == METRIC_COUNTER, ends_with(meter->name, "_total"));
		assert_int_equal(meter->kind == METRIC_HISTOGRAM, meter->bounds != NULL);
		if (meter->kind == METRIC_HISTOGRAM) {
			assert_true(ends_with(meter->name, "_seconds"));
			assert_ascending(meter->bounds);
		}
	}
}

static void no_two_meters_share_a_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < METER_COUNT; i++) {
		for (size_t j = i + 1; j < METER_COUNT; j++)
			assert_string_not_equal(meters[i].name, meters[j].name);
	}
}

/* A sample of each family as the contract writes it: names and labels are a promise. */
static void the_meters_are_the_documented_ones(void **state)
{
	static const char *const values[METRIC_LABELS] = { "a", "b", "c" };
	static const char *const promised[] = {
		"inboxd_messages_received_total{topic=\"a\"} 0\n",
		"inboxd_duplicates_total{topic=\"a\"} 0\n",
		"inboxd_conflicts_total{topic=\"a\"} 0\n",
		"inboxd_rejects_total{topic=\"a\",reason=\"b\"} 0\n",
		"inboxd_skipped_total{topic=\"a\"} 0\n",
		"inboxd_unwanted_total{topic=\"a\"} 0\n",
		"inboxd_topic_recreated_total{topic=\"a\"} 0\n",
		"inboxd_offset_gaps_total{topic=\"a\"} 0\n",
		"inboxd_deliveries_total{handler=\"a\",outcome=\"b\",consumer=\"c\"} 0\n",
		"inboxd_in_flight{handler=\"a\",consumer=\"b\"} 0\n",
		"inboxd_handlers_connected{handler=\"a\",consumer=\"b\"} 0\n",
		"inboxd_unknown_answers_total 0\n",
		"inboxd_protocol_errors_total 0\n",
		"inboxd_order_violations_total 0\n",
		"inboxd_waiting{consumer=\"a\"} 0\n",
		"inboxd_handlers_lapsed{handler=\"a\",consumer=\"b\"} 0\n",
		"inboxd_waiting_for_nobody{consumer=\"a\"} 0\n",
		"inboxd_paused{kind=\"a\",target=\"b\"} 0\n",
		"inboxd_dead 0\n",
		"inboxd_unrouted{consumer=\"a\"} 0\n",
		"inboxd_oldest_waiting_seconds{consumer=\"a\"} 0\n",
		"inboxd_claimed 0\n",
		"inboxd_claimed_bytes 0\n",
		"inboxd_kafka_lag{topic=\"a\",partition=\"b\"} 0\n",
		"inboxd_partitions_paused 0\n",
		"inboxd_partitions_stalled 0\n",
		"inboxd_open_transaction_seconds 0\n",
		"inboxd_kafka_throttle_seconds_count{client=\"a\"} 0\n",
		"inboxd_rescued_total 0\n",
		"inboxd_claim_lost_total 0\n",
		"inboxd_pg_errors_total{class=\"a\"} 0\n",
		"inboxd_pg_reconnects_total 0\n",
		"inboxd_rows_set_aside{operation=\"a\"} 0\n",
		"inboxd_purged_total 0\n",
		"inboxd_retention_refused_total{what=\"a\"} 0\n",
		"inboxd_payloads_dropped_total 0\n",
		"inboxd_dead_topic_waiting 0\n",
		"inboxd_dead_topic_produced_total 0\n",
		"inboxd_dead_topic_failures_total 0\n",
		"inboxd_events_dropped_total 0\n",
		"inboxd_outbox_unattended 0\n",
		"inboxd_outbox_leader 0\n",
		"inboxd_outbox_waiting 0\n",
		"inboxd_outbox_oldest_seconds 0\n",
		"inboxd_outbox_holes 0\n",
		"inboxd_outbox_held_keys 0\n",
		"inboxd_outbox_held_topics 0\n",
		"inboxd_outbox_dead 0\n",
		"inboxd_outbox_published_total 0\n",
		"inboxd_outbox_refused_total 0\n",
		"inboxd_outbox_failures_total 0\n",
		"inboxd_outbox_publish_seconds_count 0\n",
		"inboxd_requests{state=\"a\"} 0\n",
		"inboxd_requests_lost 0\n",
		"inboxd_requests_expired_total 0\n",
		"inboxd_otlp_spans_exported_total 0\n",
		"inboxd_otlp_spans_dropped_total 0\n",
		"inboxd_otlp_failures_total 0\n",
		"inboxd_log_lines_dropped_total 0\n",
		"inboxd_oldest_xmin_seconds 0\n",
		"inboxd_pg_connections{state=\"a\"} 0\n",
		"inboxd_ready{check=\"a\"} 0\n",
		"inboxd_build_info{version=\"a\"} 0\n",
		"inboxd_ingest_batch_seconds_count 0\n",
		"inboxd_claim_seconds_count 0\n",
		"inboxd_settle_seconds_count 0\n",
		"inboxd_handler_seconds_count{handler=\"a\",consumer=\"b\"} 0\n",
		"inboxd_end_to_end_seconds_count{consumer=\"a\"} 0\n",
		"process_cpu_seconds_total 0\n",
		"process_resident_memory_bytes 0\n",
		"process_virtual_memory_bytes 0\n",
		"process_open_fds 0\n",
		"process_max_fds 0\n",
		"process_start_time_seconds 0\n",
	};
	struct metrics *metrics;
	const char *text;

	(void)state;
	assert_int_equal(sizeof(promised) / sizeof(promised[0]), METER_COUNT);
	assert_int_equal(metrics_new(&metrics, meters, METER_COUNT, NULL), 0);
	for (size_t i = 0; i < METER_COUNT; i++)
		(void)metrics_series(metrics, i, values);
	text = page(metrics, false);
	for (size_t i = 0; i < METER_COUNT; i++)
		assert_says(text, promised[i]);
	metrics_free(metrics);
}

#define WITH_METRICS(test) cmocka_unit_test_setup_teardown(test, made, freed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_METRICS(every_family_has_help_and_type_before_its_first_series),
		WITH_METRICS(a_family_without_labels_exists_from_the_start),
		WITH_METRICS(the_same_labels_are_the_same_series),
		WITH_METRICS(labels_are_copied),
		WITH_METRICS(a_counter_never_falls),
		WITH_METRICS(a_counter_counts_beyond_the_precision_of_a_double),
		WITH_METRICS(a_gauge_is_set_and_moved_both_ways),
		WITH_METRICS(whole_numbers_have_no_point_and_special_ones_a_name),
		WITH_METRICS(a_histogram_counts_up_to_each_bound_inclusive),
		WITH_METRICS(a_negative_or_missing_time_counts_as_zero),
		WITH_METRICS(the_sum_of_a_histogram_does_not_overflow),
		WITH_METRICS(series_are_sorted),
		WITH_METRICS(a_label_without_a_value_is_not_rendered),
		WITH_METRICS(series_that_are_not_kept_are_not_rendered),
		WITH_METRICS(label_values_and_help_are_escaped),
		WITH_METRICS(a_dropped_series_is_not_shown_until_it_is_used_again),
		WITH_METRICS(a_removed_series_leaves_its_place),
		WITH_METRICS(openmetrics_names_counters_without_total_and_ends_with_eof),
		WITH_METRICS(above_the_limit_a_series_is_writable_but_not_shown),
		WITH_METRICS(threads_lose_no_count),
		cmocka_unit_test(without_memory_nothing_is_created_and_nothing_leaks),
		WITH_METRICS(without_memory_a_new_series_is_writable_but_not_shown),
		WITH_METRICS(without_memory_a_page_fails_and_is_not_truncated),
		cmocka_unit_test(freeing_null_does_nothing),
		cmocka_unit_test(every_meter_has_a_name_a_help_text_and_valid_buckets),
		cmocka_unit_test(no_two_meters_share_a_name),
		cmocka_unit_test(the_meters_are_the_documented_ones),
	};

	return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
