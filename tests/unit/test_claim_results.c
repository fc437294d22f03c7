/* How dispatch handles the result of a claim: whether more rows wait, and which keys are claimed
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <stdlib.h>

#include "dispatch/table/table.h"
#include "model/message/handover.h"
#include "report/meters.h"

#define ASKED 10

/* The parts of dispatch that a result changes; orders/0 overflows. */
struct world {
	struct context context;
	struct order order;
	struct table table;
	struct event_base *base;
	struct commit_handover commit_handover;
	struct config config;
	struct admission *admission;
	struct metrics *metrics;
	size_t orders;
	struct admission_stream stream; /* when it was asked */
};

static void on_round(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
}

static void overflow(struct world *world)
{
	struct message message = { .topic = "orders", .type = "t", .bytes = 1 << 20 };
	struct message *const messages[] = { &message, &message };
	const size_t indexes[] = { world->orders, world->orders };
	struct placement places[2];
	struct routing *routing = NULL;

	assert_int_equal(routing_new(&routing, NULL), 0);
	assert_int_equal(routing_set(routing, (struct handler_id){ "", "h" },
				 &(struct subscription){ NULL, NULL }, 1, NULL),
		0);
	admission_set_routing(world->admission, routing);
	admission_place(world->admission, messages, indexes, 2, places);
	world->stream = admission_get(world->admission, world->orders);
	assert_true(world->stream.overflow);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct context *context = &world->context;
	const struct admission_limits limits = { ORDERING_KEY, 1000, 1 << 20 };

	assert_int_equal(admission_new(&world->admission, &limits, NULL), 0);
	assert_int_equal(metrics_new(&world->metrics, meters, METER_COUNT, NULL), 0);
	world->orders = (size_t)admission_stream(world->admission, "orders", 0, 0, NULL);
	admission_assign(world->admission, world->orders, true);
	overflow(world);
	context->options.admission = world->admission;
	context->options.commit_handover = &world->commit_handover;
	context->options.config = &world->config;
	world->table.context = context;
	world->table.order = &world->order;
	world->order.context = context;
	world->table.claim_seconds = metrics_get(world->metrics, METER_CLAIM, NULL, NULL);
	world->base = event_base_new();
	context->round = event_new(world->base, -1, 0, on_round, world);
	lanes_init(&world->order.lanes,
		&(struct lane_rules){ .max_unsettled = 4, .depth = 8, .claim = 8 });
	open_claims_init(&world->order.open_claims);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	lanes_fini(&world->order.lanes);
	claim_cursor_fini(&world->table.claimer.cursor);
	open_claims_fini(&world->order.open_claims);
	event_free(world->context.round);
	event_base_free(world->base);
	admission_free(world->admission);
	metrics_free(world->metrics);
	free(world);
	return 0;
}

/* A running claim of the partition, or of the lane with hash 7. */
static struct job *a_claim(struct world *world, enum job_kind kind, struct claimed claimed)
{
	struct claimer *claimer = &world->table.claimer;
	struct job *job = job_new(kind);

	job->request.max_rows = ASKED;
	job->request.number = open_claims_give(&world->order.open_claims);
	job->claim.reserved = admission_reserve(world->admission, ASKED);
	job->claim.full = true;
	job->streams.count = 1;
	job->streams.indexes = calloc(1, sizeof(*job->streams.indexes));
	job->streams.indexes[0] = world->orders;
	job->streams.versions = calloc(1, sizeof(*job->streams.versions));
	job->streams.versions[0] = world->stream.version;
	job->streams.items = calloc(1, sizeof(*job->streams.items));
	job->streams.items[0] = (struct stream_ref){ "orders", 0, "", ORDERING_KEY };
	job->claim.hashes = calloc(1, sizeof(*job->claim.hashes));
	job->claim.hashes[0] = 7;
	job->claim.claimed = claimed;
	job->claim.claimed.latest = calloc(1, sizeof(*job->claim.claimed.latest));
	job->claim.claimed.latest[0] = -1;
	claimer->claims_under_way++;
	return job;
}

static void answer(struct world *world, enum job_kind kind, struct claimed claimed)
{
	struct job *job = a_claim(world, kind, claimed);

	claim_results_take(&world->table, job);
	job_free(job);
}

static bool overflows(const struct world *world)
{
	return admission_get(world->admission, world->orders).overflow;
}

static void a_claim_with_less_than_its_limit_has_drained_its_partitions(void **state)
{
	struct world *world = *state;

	answer(world, JOB_DUE, (struct claimed){ .seen = ASKED - 1 });
	assert_false(world->table.claimer.more_due);
	assert_false(overflows(world));
}

static void a_claim_at_its_row_limit_left_rows_behind(void **state)
{
	struct world *world = *state;

	answer(world, JOB_DUE, (struct claimed){ .seen = ASKED, .limited = true });
	assert_true(world->table.claimer.more_due);
	assert_true(overflows(world));
}

static void a_claim_at_its_byte_limit_left_rows_behind(void **state)
{
	struct world *world = *state;

	answer(world, JOB_DUE, (struct claimed){ .seen = 1, .cut = true });
	assert_true(world->table.claimer.more_due);
	assert_true(overflows(world));
}

/* The lane has rows in the table, and a claim of it is running. */
static void ask_lane(struct world *world)
{
	struct lane_key key;

	assert_int_equal(lanes_parked(&world->order.lanes, world->orders, 7, 5, NULL), 0);
	assert_int_equal(lanes_take_claimable(&world->order.lanes, &key, 1), 1);
	assert_int_equal(world->order.lanes.claimable_count, 0);
}

static void a_key_whose_claim_found_nothing_is_not_claimed_again(void **state)
{
	struct world *world = *state;

	ask_lane(world);
	answer(world, JOB_LANES, (struct claimed){ .seen = 0 });
	assert_int_equal(world->order.lanes.claimable_count, 0);
}

static void a_key_beyond_the_byte_limit_of_a_claim_is_claimed_again(void **state)
{
	struct world *world = *state;

	ask_lane(world);
	answer(world, JOB_LANES, (struct claimed){ .cut = true });
	assert_int_equal(world->order.lanes.claimable_count, 1);
}

static void a_key_whose_head_died_in_the_claim_is_claimed_again(void **state)
{
	struct world *world = *state;

	ask_lane(world);
	answer(world, JOB_LANES, (struct claimed){ .seen = 1, .parked = 1 });
	assert_int_equal(world->order.lanes.claimable_count, 1);
}

/* It was excluded, corrected and forgotten while nothing was claimed. */
static void a_claim_without_refused_rows_resets_the_gauge(void **state)
{
	struct world *world = *state;
	struct metric *aside = metrics_get(world->metrics, METER_SET_ASIDE, "claim", NULL);
	struct job *job = a_claim(world, JOB_DUE, (struct claimed){ .seen = 0 });

	metric_set(aside, 1);
	world->context.options.metrics = world->metrics;
	job->claim.isolate = true;
	claim_results_take(&world->table, job);
	job_free(job);
	assert_true(metric_value(aside) == 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_claim_with_less_than_its_limit_has_drained_its_partitions),
		TEST(a_claim_at_its_row_limit_left_rows_behind),
		TEST(a_claim_at_its_byte_limit_left_rows_behind),
		TEST(a_key_whose_claim_found_nothing_is_not_claimed_again),
		TEST(a_key_beyond_the_byte_limit_of_a_claim_is_claimed_again),
		TEST(a_key_whose_head_died_in_the_claim_is_claimed_again),
		TEST(a_claim_without_refused_rows_resets_the_gauge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
