/* The holes of the outbox: ranges, their bounds, and when they are given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/err.h"
#include "model/outbox/holes.h"

static int setup(void **state)
{
	static struct holes holes;

	holes = (struct holes)HOLES_INIT;
	*state = &holes;
	return 0;
}

static int teardown(void **state)
{
	holes_fini(*state);
	return 0;
}

static void assert_hole(const struct holes *holes, size_t at, struct hole hole)
{
	assert_true(at < holes->count);
	assert_int_equal(holes->items[at].first, hole.first);
	assert_int_equal(holes->items[at].last, hole.last);
	assert_int_equal(holes->items[at].bound, hole.bound);
}

static void missing_seqs_are_ranges_in_ascending_order(void **state)
{
	struct holes *holes = *state;

	assert_int_equal(holes_lowest(holes, 99), 99);
	assert_int_equal(holes_add(holes, 10, 19), 0);
	assert_int_equal(holes_add(holes, 3, 3), 0);
	assert_int_equal(holes_add(holes, 7, 6), 0); /* no seq */
	assert_int_equal(holes->count, 2);
	assert_hole(holes, 0, (struct hole){ 3, 3, 0 });
	assert_hole(holes, 1, (struct hole){ 10, 19, 0 });
	assert_int_equal(holes_lowest(holes, 99), 3);
}

static void a_hole_that_is_known_keeps_its_bound(void **state)
{
	struct holes *holes = *state;

	assert_int_equal(holes_add(holes, 10, 12), 0);
	holes_bound(holes, 700);
	assert_int_equal(holes_add(holes, 8, 15), 0);
	assert_int_equal(holes->count, 3);
	assert_hole(holes, 0, (struct hole){ 8, 9, 0 });
	assert_hole(holes, 1, (struct hole){ 10, 12, 700 });
	assert_hole(holes, 2, (struct hole){ 13, 15, 0 });
}

static void a_row_that_appears_splits_its_hole(void **state)
{
	struct holes *holes = *state;

	assert_int_equal(holes_add(holes, 10, 15), 0);
	holes_fill(holes, 10);
	holes_fill(holes, 15);
	holes_fill(holes, 12);
	holes_fill(holes, 9);
	holes_fill(holes, 99);
	assert_int_equal(holes->count, 2);
	assert_hole(holes, 0, (struct hole){ 11, 11, 0 });
	assert_hole(holes, 1, (struct hole){ 13, 14, 0 });
	holes_fill(holes, 11);
	assert_int_equal(holes->count, 1);
}

static void a_hole_is_given_up_when_its_bound_is_reached(void **state)
{
	struct holes *holes = *state;

	assert_int_equal(holes_add(holes, 10, 10), 0);
	holes_give_up(holes, INT64_MAX, 1, 100); /* no bound yet */
	assert_int_equal(holes->count, 1);
	holes_bound(holes, 700);
	assert_int_equal(holes_add(holes, 20, 20), 0);
	holes_bound(holes, 800);
	holes_give_up(holes, 699, 1, 100);
	assert_int_equal(holes->count, 2);
	holes_give_up(holes, 700, 1, 100);
	assert_int_equal(holes->count, 1);
	assert_hole(holes, 0, (struct hole){ 20, 20, 800 });
}

static void only_holes_that_were_asked_for_are_given_up(void **state)
{
	struct holes *holes = *state;

	for (int64_t seq = 10; seq <= 50; seq += 10)
		assert_int_equal(holes_add(holes, seq, seq + 1), 0);
	holes_bound(holes, 5);
	holes_give_up(holes, 6, 20, 41);
	assert_int_equal(holes->count, 2);
	assert_hole(holes, 0, (struct hole){ 10, 11, 5 });
	assert_hole(holes, 1, (struct hole){ 50, 51, 5 });
}

static void too_many_holes_are_joined_and_none_is_lost(void **state)
{
	struct holes *holes = *state;

	holes->most = 4;
	for (int64_t seq = 10; seq <= 40; seq += 10)
		assert_int_equal(holes_add(holes, seq, seq), 0);
	holes_bound(holes, 5);
	assert_int_equal(holes_add(holes, 50, 50), 0);
	assert_int_equal(holes->count, 3);
	assert_hole(holes, 0, (struct hole){ 10, 20, 5 });
	assert_hole(holes, 1, (struct hole){ 30, 40, 5 });
	assert_hole(holes, 2, (struct hole){ 50, 50, 0 });
	assert_int_equal(holes_add(holes, 60, 60), 0);
	assert_int_equal(holes_add(holes, 70, 70), 0);
	assert_int_equal(holes->count, 3);
	assert_hole(holes, 1, (struct hole){ 50, 60, 0 }); /* unknown is later than any */
}

static void without_room_a_filled_hole_stays_whole(void **state)
{
	struct holes *holes = *state;

	holes->most = 1;
	assert_int_equal(holes_add(holes, 10, 20), 0);
	holes_fill(holes, 15);
	assert_int_equal(holes->count, 1);
	assert_hole(holes, 0, (struct hole){ 10, 20, 0 });
}

static void without_memory_nothing_changes(void **state)
{
	struct holes *holes = *state;

	alloc_fail_at(1);
	assert_int_equal(holes_add(holes, 10, 20), FAULT_MEMORY);
	assert_true(alloc_fail_never());
	assert_int_equal(holes->count, 0);
	assert_int_equal(holes_add(holes, 10, 20), 0);
}

static void cleared_holes_are_forgotten(void **state)
{
	struct holes *holes = *state;

	assert_int_equal(holes_add(holes, 10, 20), 0);
	holes_clear(holes);
	assert_int_equal(holes_lowest(holes, 7), 7);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(missing_seqs_are_ranges_in_ascending_order),
		test(a_hole_that_is_known_keeps_its_bound),
		test(a_row_that_appears_splits_its_hole),
		test(a_hole_is_given_up_when_its_bound_is_reached),
		test(only_holes_that_were_asked_for_are_given_up),
		test(too_many_holes_are_joined_and_none_is_lost),
		test(without_room_a_filled_hole_stays_whole),
		test(without_memory_nothing_changes),
		test(cleared_holes_are_forgotten),
	};

	return cmocka_run_group_tests_name("holes", tests, NULL, NULL);
}
