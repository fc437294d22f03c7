/* The handover from COMMIT to the queue: when is it empty? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/message/handover.h"

static void a_handover_is_open_until_its_batch_has_arrived(void **state)
{
	struct commit_handover handover = { 0 };

	(void)state;
	assert_false(commit_handover_is_open(&handover));
	commit_handover_begin(&handover);
	assert_true(commit_handover_is_open(&handover));
	commit_handover_end(&handover);
	assert_false(commit_handover_is_open(&handover));
}

/* The previous batch is committed and waits for a place in the queue. */
static void a_lost_batch_does_not_end_the_handover_of_the_previous_one(void **state)
{
	struct commit_handover handover = { 0 };

	(void)state;
	commit_handover_begin(&handover);
	commit_handover_begin(&handover);
	commit_handover_lose(&handover);
	assert_int_equal(atomic_load(&handover.lost), 1);
	assert_true(commit_handover_is_open(&handover));
	commit_handover_end(&handover);
	assert_false(commit_handover_is_open(&handover));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handover_is_open_until_its_batch_has_arrived),
		cmocka_unit_test(a_lost_batch_does_not_end_the_handover_of_the_previous_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
