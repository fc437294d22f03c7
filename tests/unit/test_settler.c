/* The crash counts of suspects that are raised before their delivery: those whose time has come, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "dispatch/table/table.h"
#include "report/meters.h"

#define NOW 1000000

struct world {
	struct context context;
	struct order order;
	struct table table;
	struct wake wake;
	struct event_base *base;
	struct config config;
	struct message messages[4];
	struct entry entries[4];
	size_t used;
};

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

/* The workers find no PostgreSQL. Their jobs come back as they were given. */
static int setup(void **state)
{
	static char name[] = "host";
	static char value[] = "/nowhere";
	static struct setting host = { .name = name, .value = value };
	struct world *world = calloc(1, sizeof(*world));
	struct worker_options workers = { .db = { .schema = "inbox", .application = "test" },
		.connections = 1 };

	assert_int_equal(
		metrics_new(&world->context.options.metrics, meters, METER_COUNT, NULL), 0);
	assert_int_equal(wake_init(&world->wake, NULL), 0);
	world->config.postgres = (struct settings){ &host, 1 };
	world->context.options.config = &world->config;
	world->base = event_base_new();
	world->context.round = event_new(world->base, -1, 0, on_round, world);
	world->order.context = &world->context;
	TAILQ_INIT(&world->order.verdicts.entries);
	table_init(&world->table, &world->context, &world->order);
	workers.db.postgres = &world->config.postgres;
	workers.done_wake = &world->wake;
	assert_int_equal(worker_pool_new(&world->table.pool, &workers, NULL), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	table_fini(&world->table);
	event_free(world->context.round);
	event_base_free(world->base);
	wake_fini(&world->wake);
	metrics_free(world->context.options.metrics);
	free(world);
	return 0;
}

/* A suspect waits for its crash count; its row was locked, and is tried again at that time. 0: it was not locked. */
static const struct entry *a_suspect(struct world *world, int64_t retry_at_ms)
{
	struct entry *entry = &world->entries[world->used];

	entry->message = &world->messages[world->used++];
	entry->settling.retry_at_ms = retry_at_ms;
	settler_add_raise(&world->table, entry);
	return entry;
}

static void assert_no_job_at(struct world *world, int64_t now_ms)
{
	settler_run(&world->table, now_ms);
	assert_int_equal(worker_pool_busy(world->table.pool), 0);
}

static struct job *job_at(struct world *world, int64_t now_ms)
{
	struct job *job = NULL;

	settler_run(&world->table, now_ms);
	assert_int_not_equal(worker_pool_busy(world->table.pool), 0);
	while ((job = worker_pool_take(world->table.pool)) == NULL)
		(void)usleep(1000);
	assert_int_equal(job->kind, JOB_RAISE);
	return job;
}

static void a_suspect_whose_row_was_locked_waits_for_its_time(void **state)
{
	struct world *world = *state;
	const struct entry *first = a_suspect(world, 0);
	const struct entry *locked = a_suspect(world, NOW + 200);
	const struct entry *second = a_suspect(world, 0);
	struct job *job = job_at(world, NOW);

	assert_int_equal(job->settle.count, 2);
	assert_ptr_equal(job->settle.entries[0], first);
	assert_ptr_equal(job->settle.entries[1], second);
	assert_int_equal(world->table.settler.raise_count, 1);
	job_free(job);
	assert_no_job_at(world, NOW + 199);
	job = job_at(world, NOW + 200);
	assert_int_equal(job->settle.count, 1);
	assert_ptr_equal(job->settle.entries[0], locked);
	assert_int_equal(world->table.settler.raise_count, 0);
	job_free(job);
}

static void a_locked_suspect_does_not_delay_a_later_one(void **state)
{
	struct world *world = *state;
	const struct entry *locked = a_suspect(world, NOW + 200);
	const struct entry *second = a_suspect(world, 0);
	struct job *job = job_at(world, NOW);

	assert_int_equal(job->settle.count, 1);
	assert_ptr_equal(job->settle.entries[0], second);
	assert_ptr_equal(TAILQ_FIRST(&world->table.settler.raise), locked);
	job_free(job);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_suspect_whose_row_was_locked_waits_for_its_time),
		TEST(a_locked_suspect_does_not_delay_a_later_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
