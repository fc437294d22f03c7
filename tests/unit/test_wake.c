/* The wake-up between threads: a poke is never lost, and never seen twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/threads/wake.h"
#include "base/time/clock.h"

#define LONG_MS 20000 /* far beyond what any of these takes: a wait that ends by it has failed */

static int opened(void **state)
{
	static struct wake wake;

	*state = &wake;
	return wake_init(&wake, NULL);
}

static int closed(void **state)
{
	wake_fini(*state);
	return 0;
}

static bool is_readable(const struct wake *wake)
{
	struct pollfd look = { .fd = wake->fd, .events = POLLIN };

	return poll(&look, 1, 0) == 1;
}

static void a_poke_before_the_wait_is_not_lost(void **state)
{
	struct wake *wake = *state;

	wake_poke(wake);
	assert_int_equal(wake_wait(wake, LONG_MS), 1);
}

static void many_pokes_cause_one_wake_up(void **state)
{
	struct wake *wake = *state;

	for (int i = 0; i < 1000; i++)
		wake_poke(wake);
	assert_int_equal(wake_wait(wake, LONG_MS), 1);
	assert_int_equal(wake_wait(wake, 0), 0);
}

static void a_wait_without_a_poke_ends_at_its_timeout(void **state)
{
	struct wake *wake = *state;
	int64_t before = clock_now_ms();

	assert_int_equal(wake_wait(wake, 20), 0);
	assert_true(clock_now_ms() - before >= 19);
}

static void a_timeout_beyond_an_int_is_a_long_wait_not_a_broken_one(void **state)
{
	struct wake *wake = *state;

	wake_poke(wake);
	assert_int_equal(wake_wait(wake, INT64_MAX), 1);
}

static void clearing_removes_the_pokes(void **state)
{
	struct wake *wake = *state;

	wake_poke(wake);
	assert_true(is_readable(wake));
	wake_clear(wake);
	assert_false(is_readable(wake));
	wake_clear(wake);
	assert_false(is_readable(wake));
}

static void *poke(void *arg)
{
	wake_poke(arg);
	return NULL;
}

static void another_thread_can_end_the_wait(void **state)
{
	struct wake *wake = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, poke, wake), 0);
	assert_int_equal(wake_wait(wake, LONG_MS), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_full_counter_counts_as_poked_and_blocks_nobody(void **state)
{
	struct wake *wake = *state;
	uint64_t almost_all = UINT64_MAX - 1;

	assert_int_equal(write(wake->fd, &almost_all, sizeof(almost_all)), sizeof(almost_all));
	wake_poke(wake);
	assert_int_equal(wake_wait(wake, LONG_MS), 1);
	assert_int_equal(wake_wait(wake, 0), 0);
}

static void without_descriptors_the_error_names_the_call(void **state)
{
	struct wake wake = WAKE_INIT;
	struct err err = ERR_INIT;
	struct rlimit old;
	struct rlimit none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(wake_init(&wake, &err), FAULT_INTERNAL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_non_null(strstr(err.text, "cannot make a wake-up"));
	wake_fini(&wake);
}

static void closing_twice_does_nothing(void **state)
{
	struct wake wake = WAKE_INIT;

	(void)state;
	assert_int_equal(wake_init(&wake, NULL), 0);
	wake_fini(&wake);
	wake_fini(&wake);
	assert_int_equal(wake.fd, -1);
}

#define WITH_WAKE(test) cmocka_unit_test_setup_teardown(test, opened, closed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WAKE(a_poke_before_the_wait_is_not_lost),
		WITH_WAKE(many_pokes_cause_one_wake_up),
		WITH_WAKE(a_wait_without_a_poke_ends_at_its_timeout),
		WITH_WAKE(a_timeout_beyond_an_int_is_a_long_wait_not_a_broken_one),
		WITH_WAKE(clearing_removes_the_pokes),
		WITH_WAKE(another_thread_can_end_the_wait),
		WITH_WAKE(a_full_counter_counts_as_poked_and_blocks_nobody),
		cmocka_unit_test(without_descriptors_the_error_names_the_call),
		cmocka_unit_test(closing_twice_does_nothing),
	};

	return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
