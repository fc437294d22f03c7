/* Which claims may still hold rows: low_claim never passes one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/table/open_claims.h"

static int setup(void **state)
{
	static struct open_claims claims;

	open_claims_init(&claims);
	*state = &claims;
	return 0;
}

static int teardown(void **state)
{
	open_claims_fini(*state);
	return 0;
}

static void nothing_given_is_bounded_by_the_first(void **state)
{
	assert_int_equal(open_claims_low(*state), 1);
}

static void a_claim_on_its_way_holds_the_bound(void **state)
{
	struct open_claims *claims = *state;

	assert_int_equal(open_claims_give(claims), 1);
	assert_int_equal(open_claims_give(claims), 2);
	open_claims_answered(claims, 2);
	assert_int_equal(open_claims_low(claims), 1);
	open_claims_answered(claims, 1);
	assert_int_equal(open_claims_low(claims), 3);
}

static void what_comes_back_out_of_turn_does_not_vouch_for_the_others(void **state)
{
	struct open_claims *claims = *state;

	assert_int_equal(open_claims_arrived_to(claims), 0);
	for (int i = 0; i < 3; i++)
		(void)open_claims_give(claims);
	open_claims_arrived(claims, 2);
	assert_int_equal(open_claims_arrived_to(claims), 0);
	open_claims_arrived(
		claims, 1); /* its outcome is unknown: it stays open, and is back nevertheless */
	assert_int_equal(open_claims_arrived_to(claims), 2);
	open_claims_arrived(claims, 3);
	open_claims_answered(claims, 3);
	assert_int_equal(open_claims_arrived_to(claims), 3);
	assert_int_equal(open_claims_low(claims), 1);
}

static void a_claim_is_open_until_its_last_row_is_settled(void **state)
{
	struct open_claims *claims = *state;
	struct open_claim *row;
	struct open_claim *other;

	(void)open_claims_give(claims);
	row = open_claims_hold(claims, 1);
	other = open_claims_hold(claims, 1);
	open_claims_answered(claims, 1);
	(void)open_claims_give(claims);
	open_claims_answered(claims, 2);
	open_claims_release(claims, row);
	assert_int_equal(open_claims_low(claims), 1);
	open_claims_release(claims, other);
	assert_int_equal(open_claims_low(claims), 3);
}

static void a_claim_whose_outcome_is_unknown_holds_the_bound_until_it_is_resolved(void **state)
{
	struct open_claims *claims = *state;
	struct open_claim *row;

	(void)open_claims_give(claims); /* its answer was lost */
	(void)open_claims_give(claims);
	row = open_claims_hold(claims, 2);
	open_claims_answered(claims, 2);
	open_claims_release(claims, row);
	assert_int_equal(open_claims_low(claims), 1);
	open_claims_resolved(claims);
	assert_int_equal(open_claims_low(claims), 3);
}

static void nobody_holds_rows_of_a_claim_that_is_over(void **state)
{
	struct open_claims *claims = *state;

	(void)open_claims_give(claims);
	open_claims_answered(claims, 1);
	assert_null(open_claims_hold(claims, 1));
	open_claims_release(claims, NULL);
	assert_int_equal(open_claims_low(claims), 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_given_is_bounded_by_the_first),
		TEST(a_claim_on_its_way_holds_the_bound),
		TEST(what_comes_back_out_of_turn_does_not_vouch_for_the_others),
		TEST(a_claim_is_open_until_its_last_row_is_settled),
		TEST(a_claim_whose_outcome_is_unknown_holds_the_bound_until_it_is_resolved),
		TEST(nobody_holds_rows_of_a_claim_that_is_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
