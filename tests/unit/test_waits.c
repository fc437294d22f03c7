/* How long dispatch waits: for its next round, and for the database after jobs have failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>

#include "base/time/clock.h"
#include "dispatch/table/table.h"
#include "report/meters.h"

#define LONG_MS     60000
#define WORKERS     4
#define FIRST_MS    101 /* the longest first hold */
#define DEADLINE_MS 30000

/* --- The next round ---------------------------------------------------------------------------- */

struct loop {
	struct context context;
	struct event_base *base;
	int rounds;
};

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	loop->rounds++;
}

static void begin(struct loop *loop)
{
	*loop = (struct loop){ .base = event_base_new() };
	loop->context.round = event_new(loop->base, -1, 0, on_round, loop);
	loop->context.later = event_new(loop->base, -1, 0, on_round, loop);
}

static void end(struct loop *loop)
{
	event_free(loop->context.round);
	event_free(loop->context.later);
	event_base_free(loop->base);
}

/* The next rounds come within a time that is far from LONG_MS. When this process was stopped, several can be due at once. */
static void assert_rounds_come(struct loop *loop, int count)
{
	const struct timeval deadline = { .tv_sec = DEADLINE_MS / 1000 };
	int64_t until_ms = clock_now_ms() + DEADLINE_MS;
	int before = loop->rounds;

	assert_int_equal(event_base_loopexit(loop->base, &deadline), 0);
	while (loop->rounds < before + count && clock_now_ms() < until_ms)
		assert_int_equal(event_base_loop(loop->base, EVLOOP_ONCE), 0);
	assert_int_equal(loop->rounds, before + count);
}

static void the_earlier_of_two_rounds_counts(void **state)
{
	struct loop loop;

	(void)state;
	begin(&loop);
	context_request_round_in(&loop.context, 10);
	context_request_round_in(&loop.context, LONG_MS);
	assert_rounds_come(&loop, 1);
	context_request_round_in(&loop.context, LONG_MS);
	context_request_round_in(&loop.context, 10);
	assert_rounds_come(&loop, 1);
	end(&loop);
}

static void a_wait_for_a_round_takes_back_no_other_round(void **state)
{
	struct loop loop;

	(void)state;
	begin(&loop);
	context_request_round(&loop.context);
	context_request_round_in(&loop.context, LONG_MS);
	assert_rounds_come(&loop, 1);
	context_request_round_in(&loop.context, 10);
	context_request_round(&loop.context);
	assert_rounds_come(&loop, 2);
	end(&loop);
}

/* --- The database ------------------------------------------------------------------------------ */

/* Nobody listens there. */
static char keyword[] = "host";
static char value[] = "/nonexistent";
static struct setting host = { .name = keyword, .value = value };
static const struct settings nowhere = { &host, 1 };

struct database {
	struct context context;
	struct table table;
	struct wake wake;
	struct metrics *metrics;
};

static void connect_nowhere(struct database *database)
{
	const struct worker_options options = {
		.db = { .postgres = &nowhere, .schema = "inbox", .application = "test" },
		.connections = WORKERS,
		.done_wake = &database->wake,
	};

	*database = (struct database){ .wake = WAKE_INIT };
	assert_int_equal(wake_init(&database->wake, NULL), 0);
	assert_int_equal(metrics_new(&database->metrics, meters, METER_COUNT, NULL), 0);
	database->context.options.metrics = database->metrics;
	database->table.context = &database->context;
	assert_int_equal(worker_pool_new(&database->table.pool, &options, NULL), 0);
}

static void disconnect(struct database *database)
{
	worker_pool_free(database->table.pool);
	metrics_free(database->metrics);
	wake_fini(&database->wake);
}

static void fail_at_once(struct database *database, size_t jobs)
{
	int64_t until_ms = clock_now_ms() + DEADLINE_MS;

	for (size_t i = 0; i < jobs; i++)
		jobs_give(&database->table, job_new(JOB_GAUGES));
	while (jobs > 0) {
		struct job *job = jobs_take(&database->table);

		assert_true(clock_now_ms() < until_ms);
		if (job == NULL) {
			(void)wake_wait(&database->wake, 100);
			continue;
		}
		assert_int_not_equal(job->result, 0);
		job_free(job);
		jobs--;
	}
}

static void jobs_that_fail_at_once_are_one_attempt(void **state)
{
	struct database database;
	struct database_state *seen = &database.table.database;

	(void)state;
	connect_nowhere(&database);
	fail_at_once(&database, WORKERS);
	assert_int_equal(seen->holds, 1);
	assert_true(seen->hold_until_ms <= clock_now_ms() + FIRST_MS);
	seen->hold_until_ms = 0;
	fail_at_once(&database, 1);
	assert_int_equal(seen->holds, 2);
	assert_int_equal(seen->outage.failures, WORKERS + 1);
	disconnect(&database);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_earlier_of_two_rounds_counts),
		cmocka_unit_test(a_wait_for_a_round_takes_back_no_other_round),
		cmocka_unit_test(jobs_that_fail_at_once_are_one_attempt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
