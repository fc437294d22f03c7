/* The judges of /livez and /readyz, at an hour of the test's choosing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "alloc_fail.h"
#include "base/cleanup.h"
#include "http/health.h"

#define NOW      1000000
#define LEASE_MS 15000

static void assert_says(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' is not in:\n%s", part, text);
}

static struct health well_at_now(void)
{
	return (struct health){
		.ingest_tick_ms = NOW - 100,
		.dispatch_tick_ms = NOW - 100,
		.heartbeat_ms = NOW - 1000,
		.stored_ms = NOW - 1000,
		.database_ok = true,
		.group_joined = true,
		.broker_ok = true,
	};
}

typedef bool check_fn(const struct health_view *view, struct buf *json);

static bool verdict(
	check_fn *check, const struct health *health, int64_t since_ms, struct buf *json)
{
	const struct health_view view = {
		.health = health,
		.lease_ms = LEASE_MS,
		.since_ms = since_ms,
		.now_ms = NOW,
	};

	buf_reset(json);
	return check(&view, json);
}

static void assert_fails(check_fn *check, const struct health *health, const char *reason)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	assert_false(verdict(check, health, 0, &json));
	assert_says(buf_str(&json), reason);
}

static void assert_holds(check_fn *check, const struct health *health, int64_t since_ms)
{
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	if (!verdict(check, health, since_ms, &json))
		fail_msg("%s", buf_str(&json));
}

static void alive_while_both_loops_made_progress_in_time(void **state)
{
	struct health health = well_at_now();

	(void)state;
	health.ingest_tick_ms = NOW - HEALTH_STALL_MS;
	health.dispatch_tick_ms = NOW - HEALTH_STALL_MS;
	assert_holds(health_alive, &health, 0);
	health.ingest_tick_ms = NOW - HEALTH_STALL_MS - 1;
	assert_fails(health_alive, &health,
		"{\"alive\":false,\"reasons\":[{\"check\":\"ingest\",\"detail\":"
		"\"the ingest loop has made no progress for 45 s\"}]}");
	health.dispatch_tick_ms = NOW - 60000;
	assert_fails(health_alive, &health,
		"\"},{\"check\":\"dispatch\",\"detail\":"
		"\"the dispatch loop has made no progress for 60 s\"}]}");
}

static void during_its_start_a_process_is_alive_but_not_ready(void **state)
{
	struct health health = well_at_now();

	(void)state;
	health.ingest_tick_ms = 0;
	health.dispatch_tick_ms = 0;
	assert_holds(health_alive, &health, NOW - HEALTH_STALL_MS);
	assert_fails(health_alive, &health, "\"ingest\"");
	assert_fails(
		health_ready, &health, "{\"check\":\"progress\",\"detail\":\"still starting\"}");
}

static void alive_while_stopping_but_not_ready(void **state)
{
	struct health health = well_at_now();

	(void)state;
	health.ingest_tick_ms = 1;
	health.stopping = true;
	assert_holds(health_alive, &health, 0);
	assert_fails(health_ready, &health, "\"reasons\":[{\"check\":\"running\"");
}

static void ready_while_a_heartbeat_is_younger_than_the_lease(void **state)
{
	struct health health = well_at_now();

	(void)state;
	health.heartbeat_ms = NOW - LEASE_MS;
	assert_holds(health_ready, &health, 0);
	health.heartbeat_ms = NOW - LEASE_MS - 1000;
	assert_fails(health_ready, &health,
		"{\"check\":\"database\",\"detail\":\"PostgreSQL last confirmed a heartbeat 16 s "
		"ago, the lease is 15 s\"}");
	health.heartbeat_ms = 0;
	assert_fails(health_ready, &health, "PostgreSQL has not confirmed a heartbeat yet");
}

static void ready_needs_a_group_and_a_broker(void **state)
{
	struct health health = well_at_now();

	(void)state;
	health.group_joined = false;
	assert_fails(health_ready, &health, "{\"check\":\"group\",");
	health.group_joined = true;
	health.broker_ok = false;
	assert_fails(health_ready, &health, "{\"check\":\"broker\",");
}

static void a_sidecar_that_only_sends_needs_no_ingest(void **state)
{
	struct health health = {
		.dispatch_tick_ms = NOW - 100,
		.heartbeat_ms = NOW - 1000,
		.database_ok = true,
		.sends_only = true,
	};
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	(void)state;
	assert_true(verdict(health_ready, &health, 0, &json));
	assert_true(verdict(health_alive, &health, 0, &json));
	health.dispatch_tick_ms = 0;
	assert_fails(health_ready, &health, "still starting");
	health.sends_only = false;
	health.dispatch_tick_ms = NOW - 100;
	assert_fails(health_ready, &health, "{\"check\":\"broker\",");
}

static void a_missing_group_is_reported_with_its_reason(void **state)
{
	struct health health = well_at_now();

	(void)state;
	health.group_joined = false;
	assert_fails(health_ready, &health,
		"{\"check\":\"group\",\"detail\":\"joining the Kafka group: ");
	health.broker_ok = false;
	assert_fails(health_ready, &health,
		"\"detail\":\"out of the Kafka group until a broker is reachable\"}");
	health.heartbeat_ms = NOW - LEASE_MS - 1;
	assert_fails(health_ready, &health,
		"\"detail\":\"out of the Kafka group until PostgreSQL confirms a heartbeat\"}");
}

static void ready_needs_progress(void **state)
{
	struct health health = well_at_now();

	(void)state;
	health.stored_ms = NOW - HEALTH_STALL_MS - 1000;
	assert_fails(health_ready, &health,
		"{\"check\":\"progress\",\"detail\":\"records are waiting, and none was stored for "
		"46 s\"}");
	health = well_at_now();
	health.dispatch_tick_ms = NOW - HEALTH_STALL_MS - 1000;
	assert_fails(
		health_ready, &health, "{\"check\":\"progress\",\"detail\":\"the dispatch loop");
}

static void all_reasons_are_reported_together(void **state)
{
	struct health nothing = { 0 };
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	(void)state;
	assert_false(verdict(health_ready, &nothing, 0, &json));
	assert_says(buf_str(&json), "\"database\"");
	assert_says(buf_str(&json), "\"group\"");
	assert_says(buf_str(&json), "\"broker\"");
	assert_says(buf_str(&json), "\"progress\"");
}

static void without_memory_for_the_reasons_it_is_not_ready(void **state)
{
	struct health health = well_at_now();
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	(void)state;
	assert_non_null(buf_reserve(&json, 256));
	alloc_fail_at(1);
	assert_false(verdict(health_ready, &health, 0, &json));
	(void)alloc_fail_never();
	assert_string_equal(buf_str(&json), "{\"ready\":false,\"reasons\":[]}\n");
}

static void rows_that_wait_for_nobody_are_noted_and_no_failure(void **state)
{
	struct health health = well_at_now();
	CLEANUP(buf_fini) struct buf json = BUF_INIT;

	(void)state;
	assert_true(verdict(health_ready, &health, 0, &json));
	assert_string_equal(buf_str(&json), "{\"ready\":true}\n");
	health.for_nobody = 3;
	assert_true(verdict(health_ready, &health, 0, &json));
	assert_string_equal(buf_str(&json),
		"{\"ready\":true,\"notes\":[\"messages that wait for a consumer that no sidecar "
		"lists any more: 3\"]}\n");
	health.for_nobody = 0;
	health.unlisted = 1;
	health.unrouted = 788;
	buf_reset(&json);
	assert_true(verdict(health_ready, &health, 0, &json));
	assert_string_equal(buf_str(&json),
		"{\"ready\":true,\"notes\":[\"consumers that no running sidecar lists, although "
		"messages are stored for them: 1\",\"messages that wait and that no connected "
		"handler has subscribed to: 788\"]}\n");
	health.unlisted = 0;
	health.unrouted = 0;
	health.for_nobody = 3;
	health.broker_ok = false;
	assert_fails(health_ready, &health, "is reachable\"}],\"notes\":[\"messages");
	assert_true(verdict(health_alive, &health, 0, &json));
	assert_string_equal(buf_str(&json), "{\"alive\":true}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(alive_while_both_loops_made_progress_in_time),
		cmocka_unit_test(during_its_start_a_process_is_alive_but_not_ready),
		cmocka_unit_test(alive_while_stopping_but_not_ready),
		cmocka_unit_test(ready_while_a_heartbeat_is_younger_than_the_lease),
		cmocka_unit_test(ready_needs_a_group_and_a_broker),
		cmocka_unit_test(a_sidecar_that_only_sends_needs_no_ingest),
		cmocka_unit_test(a_missing_group_is_reported_with_its_reason),
		cmocka_unit_test(ready_needs_progress),
		cmocka_unit_test(all_reasons_are_reported_together),
		cmocka_unit_test(without_memory_for_the_reasons_it_is_not_ready),
		cmocka_unit_test(rows_that_wait_for_nobody_are_noted_and_no_failure),
	};

	return cmocka_run_group_tests_name("http_health", tests, NULL, NULL);
}
