/* Which messages of an ordered batch are behind another one of their lane, and what an answer for them means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/schedule/ordered_batch.h"

#define ENTRIES 6

/* A batch with the lanes A B A - - A. */
struct world {
	struct connection connection;
	struct call call;
	struct lane a;
	struct lane b;
	struct entry entries[ENTRIES];
};

static int set_up(void **state)
{
	static struct world world;
	struct lane *const lanes[ENTRIES] = { &world.a, &world.b, &world.a, NULL, NULL, &world.a };

	world = (struct world){ .connection = { .batch_ordered = true } };
	TAILQ_INIT(&world.call.entries);
	for (size_t i = 0; i < ENTRIES; i++) {
		world.entries[i].lane = lanes[i];
		world.entries[i].delivery.connection = &world.connection;
		world.entries[i].delivery.call = &world.call;
		TAILQ_INSERT_TAIL(&world.call.entries, &world.entries[i], delivery.call_link);
	}
	*state = &world;
	return 0;
}

static void the_next_entry_is_of_the_same_lane(void **state)
{
	struct world *world = *state;
	struct entry *entries = world->entries;

	assert_ptr_equal(ordered_batch_next(&entries[0]), &entries[2]);
	assert_ptr_equal(ordered_batch_next(&entries[2]), &entries[5]);
	assert_null(ordered_batch_next(&entries[5]));
	assert_null(ordered_batch_next(&entries[1]));
}

static void the_first_entry_is_the_first_that_is_open(void **state)
{
	struct world *world = *state;
	struct entry *entries = world->entries;

	assert_ptr_equal(ordered_batch_first(&entries[5]), &entries[0]);
	assert_ptr_equal(ordered_batch_first(&entries[0]), &entries[0]);
	assert_ptr_equal(ordered_batch_first(&entries[1]), &entries[1]);
	TAILQ_REMOVE(&world->call.entries, &entries[0], delivery.call_link);
	assert_ptr_equal(ordered_batch_first(&entries[5]), &entries[2]);
}

static void a_message_without_a_lane_is_behind_none(void **state)
{
	struct world *world = *state;

	assert_null(ordered_batch_next(&world->entries[3]));
	assert_ptr_equal(ordered_batch_first(&world->entries[4]), &world->entries[4]);
}

static void without_an_ordered_batch_nothing_is_behind(void **state)
{
	struct world *world = *state;
	struct entry *entries = world->entries;

	entries[5].delivery.call = NULL;
	assert_null(ordered_batch_next(&entries[5]));
	assert_ptr_equal(ordered_batch_first(&entries[5]), &entries[5]);
	world->connection.batch_ordered = false;
	assert_null(ordered_batch_next(&entries[0]));
	assert_ptr_equal(ordered_batch_first(&entries[2]), &entries[2]);
}

static void done_dead_and_settled_let_the_lane_go_on(void **state)
{
	static const bool finishes[] = {
		[STATUS_DONE] = true,
		[STATUS_RETRY] = false,
		[STATUS_DEAD] = true,
		[STATUS_SNOOZE] = false,
		[STATUS_SETTLED] = true,
		[STATUS_SKIPPED] = false,
	};

	(void)state;
	for (int status = STATUS_DONE; status <= STATUS_SKIPPED; status++) {
		struct verdict verdict = { .status = (enum verdict_status)status };

		assert_int_equal(ordered_batch_finishes(&verdict), finishes[status]);
	}
}

static void a_message_behind_is_skipped_tried_or_finished_out_of_order(void **state)
{
	static const enum ordered_answer answers[] = {
		[STATUS_DONE] = ORDERED_VIOLATES,
		[STATUS_RETRY] = ORDERED_TRIED,
		[STATUS_DEAD] = ORDERED_VIOLATES,
		[STATUS_SNOOZE] = ORDERED_TRIED,
		[STATUS_SETTLED] = ORDERED_VIOLATES,
		[STATUS_SKIPPED] = ORDERED_SKIPPED,
	};

	(void)state;
	assert_int_equal(ordered_batch_behind(NULL, false), ORDERED_SKIPPED);
	for (int status = STATUS_DONE; status <= STATUS_SKIPPED; status++) {
		struct verdict verdict = { .status = (enum verdict_status)status };

		assert_int_equal(ordered_batch_behind(&verdict, false), answers[status]);
	}
}

static void an_answer_for_the_whole_batch_counts_for_the_first_of_a_lane(void **state)
{
	const struct verdict retry = { .status = STATUS_RETRY };
	const struct verdict snooze = { .status = STATUS_SNOOZE };

	(void)state;
	assert_int_equal(ordered_batch_behind(&retry, true), ORDERED_SKIPPED);
	assert_int_equal(ordered_batch_behind(&snooze, true), ORDERED_SKIPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_next_entry_is_of_the_same_lane, set_up),
		cmocka_unit_test_setup(the_first_entry_is_the_first_that_is_open, set_up),
		cmocka_unit_test_setup(a_message_without_a_lane_is_behind_none, set_up),
		cmocka_unit_test_setup(without_an_ordered_batch_nothing_is_behind, set_up),
		cmocka_unit_test(done_dead_and_settled_let_the_lane_go_on),
		cmocka_unit_test(a_message_behind_is_skipped_tried_or_finished_out_of_order),
		cmocka_unit_test(an_answer_for_the_whole_batch_counts_for_the_first_of_a_lane),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
