/* The way from COMMIT into the queue: when has everything come out of it? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/message/commit_handover.h"

static void it_is_open_until_what_is_on_it_has_come_out(void **state)
{
	struct commit_handover passage = { 0 };

	(void)state;
	assert_false(commit_handover_is_open(&passage));
	commit_handover_begin(&passage);
	assert_true(commit_handover_is_open(&passage));
	commit_handover_end(&passage);
	assert_false(commit_handover_is_open(&passage));
}

/* The one before it is committed and waits for a place in the queue. */
static void a_lost_batch_does_not_end_the_way_of_the_one_before(void **state)
{
	struct commit_handover passage = { 0 };

	(void)state;
	commit_handover_begin(&passage);
	commit_handover_begin(&passage);
	commit_handover_lose(&passage);
	assert_int_equal(atomic_load(&passage.lost), 1);
	assert_true(commit_handover_is_open(&passage));
	commit_handover_end(&passage);
	assert_false(commit_handover_is_open(&passage));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_open_until_what_is_on_it_has_come_out),
		cmocka_unit_test(a_lost_batch_does_not_end_the_way_of_the_one_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
