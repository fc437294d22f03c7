/* The holds of the outbox: heads, passes, and new events behind parked ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/err.h"
#include "model/outbox/holds.h"

static int setup(void **state)
{
	static struct holds holds;

	holds = (struct holds)HOLDS_INIT;
	*state = &holds;
	return 0;
}

static int teardown(void **state)
{
	holds_fini(*state);
	return 0;
}

static void assert_state(const struct holds *holds, uint64_t hash, enum hold_state state)
{
	assert_int_equal(holds_get(holds, hash).state, state);
}

static void a_key_is_held_until_its_head_is_gone_and_a_pass_has_ended(void **state)
{
	struct holds *holds = *state;

	assert_state(holds, 5, HOLD_NONE);
	assert_int_equal(holds_set(holds, 5, 100, false), 0);
	holds_release(holds, 5, 99); /* not the head */
	assert_state(holds, 5, HOLD_WAITS);
	holds_release(holds, 5, 100);
	assert_state(holds, 5, HOLD_FREE);
	assert_int_equal(holds->free, 1);
	holds_begin_pass(holds);
	assert_state(holds, 5, HOLD_PASSES);
	assert_int_equal(holds->free, 0);
	holds_end_pass(holds);
	assert_state(holds, 5, HOLD_NONE);
	assert_int_equal(holds->count, 0);
}

static void a_hold_that_became_free_during_a_pass_waits_for_the_next_one(void **state)
{
	struct holds *holds = *state;

	holds_begin_pass(holds);
	assert_int_equal(holds_set(holds, 5, 100, false), 0);
	holds_release(holds, 5, 100);
	holds_end_pass(holds);
	assert_state(holds, 5, HOLD_FREE);
	assert_int_equal(holds->free, 1);
}

static void a_new_head_holds_again(void **state)
{
	struct holds *holds = *state;

	assert_int_equal(holds_set(holds, 5, 100, false), 0);
	holds_release(holds, 5, 100);
	assert_int_equal(holds_set(holds, 5, 101, false), 0);
	assert_int_equal(holds->free, 0);
	assert_state(holds, 5, HOLD_WAITS);
	assert_int_equal(holds_get(holds, 5).head, 101);
	holds_begin_pass(holds);
	holds_end_pass(holds);
	assert_state(holds, 5, HOLD_WAITS);
}

static void topics_are_counted(void **state)
{
	struct holds *holds = *state;

	assert_int_equal(holds_set(holds, 5, 100, true), 0);
	assert_int_equal(holds_set(holds, 6, 101, false), 0);
	assert_int_equal(holds_set(holds, 5, 102, true), 0);
	assert_int_equal(holds->topics, 1);
	assert_int_equal(holds->count, 2);
	holds_clear(holds);
	assert_int_equal(holds->topics, 0);
	assert_state(holds, 5, HOLD_NONE);
}

static void thousands_are_found_again(void **state)
{
	struct holds *holds = *state;
	size_t position = 0;
	size_t waiting = 0;

	/* all of them would like one of few slots */
	for (uint64_t i = 1; i <= 3000; i++)
		assert_int_equal(holds_set(holds, i << 8, (int64_t)i, false), 0);
	for (uint64_t i = 1; i <= 3000; i += 2)
		holds_release(holds, i << 8, (int64_t)i);
	holds_begin_pass(holds);
	holds_end_pass(holds);
	assert_int_equal(holds->count, 1500);
	for (uint64_t i = 1; i <= 3000; i++)
		assert_state(holds, i << 8, i % 2 == 1 ? HOLD_NONE : HOLD_WAITS);
	while (holds_next_waiting(holds, &position) != NULL)
		waiting++;
	assert_int_equal(waiting, 1500);
}

static void without_memory_nothing_is_held(void **state)
{
	struct holds *holds = *state;

	alloc_fail_at(1);
	assert_int_equal(holds_set(holds, 5, 100, false), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	assert_state(holds, 5, HOLD_NONE);
	assert_int_equal(holds_set(holds, 5, 100, false), 0);
	holds_release(holds, 5, 100);
	holds_begin_pass(holds);
	alloc_fail_at(1);
	holds_end_pass(holds);
	assert_true(alloc_fail_never());
	assert_state(holds, 5, HOLD_PASSES);
	holds_end_pass(holds);
	assert_state(holds, 5, HOLD_NONE);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_key_is_held_until_its_head_is_gone_and_a_pass_has_ended),
		test(a_hold_that_became_free_during_a_pass_waits_for_the_next_one),
		test(a_new_head_holds_again),
		test(topics_are_counted),
		test(thousands_are_found_again),
		test(without_memory_nothing_is_held),
	};

	return cmocka_run_group_tests_name("holds", tests, NULL, NULL);
}
