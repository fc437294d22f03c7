/* Which claims may still hold rows: low_claim never passes one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dispatch/order/open_claims.h"

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

static void without_claims_the_bound_is_the_first_number(void **state)
{
	assert_int_equal(open_claims_low(*state), 1);
}

static void a_running_claim_holds_the_bound(void **state)
{
	struct open_claims *claims = *state;

	assert_int_equal(open_claims_give(claims), 1);
	assert_int_equal(open_claims_give(claims), 2);
	open_claims_answered(claims, 2);
	assert_int_equal(open_claims_low(claims), 1);
	open_claims_answered(claims, 1);
	assert_int_equal(open_claims_low(claims), 3);
}

static void an_answer_out_of_order_does_not_close_earlier_claims(void **state)
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

static void rows_of_a_closed_claim_cannot_be_held(void **state)
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
		TEST(without_claims_the_bound_is_the_first_number),
		TEST(a_running_claim_holds_the_bound),
		TEST(an_answer_out_of_order_does_not_close_earlier_claims),
		TEST(a_claim_is_open_until_its_last_row_is_settled),
		TEST(a_claim_whose_outcome_is_unknown_holds_the_bound_until_it_is_resolved),
		TEST(rows_of_a_closed_claim_cannot_be_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
