/* A thread of the program: its loop, its pause, its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/threads/thread.h"
#include "base/time/clock.h"

#define LONG_MS 20000 /* far beyond what any of these takes: a wait that ends by it has failed */

struct world {
	struct thread thread;
	atomic_int rounds;
	atomic_bool hangs;
	int64_t pause_ms;
	sigset_t blocked; /* in the thread */
};

static int opened(void **state)
{
	static struct world world;

	world = (struct world){ .pause_ms = 0 };
	*state = &world;
	return thread_init(&world.thread, NULL);
}

static int closed(void **state)
{
	struct world *world = *state;

	thread_fini(&world->thread);
	return 0;
}

static int64_t go_round(void *arg)
{
	struct world *world = arg;

	(void)atomic_fetch_add(&world->rounds, 1);
	return world->pause_ms;
}

static void loop(void *arg)
{
	struct world *world = arg;

	(void)pthread_sigmask(SIG_SETMASK, NULL, &world->blocked);
	thread_loop(&world->thread, go_round, world);
}

static void hang(void *arg)
{
	struct world *world = arg;

	while (atomic_load(&world->hangs))
		(void)wake_wait(&world->thread.wake, 1);
}

static void wait_for_rounds(struct world *world, int count)
{
	struct wake nap = WAKE_INIT;
	int64_t until_ms = clock_now_ms() + LONG_MS;

	assert_int_equal(wake_init(&nap, NULL), 0);
	while (atomic_load(&world->rounds) < count && clock_now_ms() < until_ms)
		(void)wake_wait(&nap, 1);
	wake_fini(&nap);
	assert_true(atomic_load(&world->rounds) >= count);
}

static void a_loop_runs_until_a_stop_is_requested(void **state)
{
	struct world *world = *state;

	assert_int_equal(thread_start(&world->thread, "test", loop, world, NULL), 0);
	wait_for_rounds(world, 3);
	assert_false(thread_wait(&world->thread, 0));
	thread_request_stop(&world->thread);
	assert_true(thread_wait(&world->thread, LONG_MS));
	thread_join(&world->thread);
}

static void a_request_to_stop_ends_a_pause(void **state)
{
	struct world *world = *state;

	world->pause_ms = 10LL * LONG_MS;
	assert_int_equal(thread_start(&world->thread, "test", loop, world, NULL), 0);
	wait_for_rounds(world, 1);
	thread_request_stop(&world->thread);
	assert_true(thread_wait(&world->thread, LONG_MS));
	thread_join(&world->thread);
	assert_int_equal(atomic_load(&world->rounds), 1);
}

static void a_wake_up_ends_a_pause_and_not_the_loop(void **state)
{
	struct world *world = *state;

	world->pause_ms = 10LL * LONG_MS;
	assert_int_equal(thread_start(&world->thread, "test", loop, world, NULL), 0);
	wait_for_rounds(world, 1);
	thread_wake(&world->thread);
	wait_for_rounds(world, 2);
	thread_request_stop(&world->thread);
	thread_join(&world->thread);
}

static void a_wait_for_a_hanging_thread_ends_at_its_limit(void **state)
{
	struct world *world = *state;

	atomic_store(&world->hangs, true);
	assert_int_equal(thread_start(&world->thread, "test", hang, world, NULL), 0);
	thread_request_stop(&world->thread);
	assert_false(thread_wait(&world->thread, 20));
	atomic_store(&world->hangs, false);
	assert_true(thread_wait(&world->thread, LONG_MS));
	thread_join(&world->thread);
}

/* A wait that progress_note() does not announce. */
static void hang_silently(void *arg)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct world *world = arg;

	while (atomic_load(&world->hangs))
		(void)nanosleep(&pause, NULL);
	loop(world);
}

/* Waits for the thread to become, or to be no longer, one that is silent for 20 ms. */
static void assert_stalled(bool stalled)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const int64_t until_ms = clock_now_ms() + LONG_MS;

	while ((progress_stalled(0, 20) != NULL) != stalled && clock_now_ms() < until_ms)
		(void)nanosleep(&pause, NULL);
	assert_int_equal(progress_stalled(0, 20) != NULL, stalled);
}

static void a_watched_thread_that_is_silent_is_stalled(void **state)
{
	struct world *world = *state;

	world->pause_ms = 10LL * LONG_MS; /* a pause is no silence */
	atomic_store(&world->hangs, true);
	thread_watch(&world->thread);
	assert_int_equal(thread_start(&world->thread, "test", hang_silently, world, NULL), 0);
	assert_stalled(true);
	assert_string_equal(progress_stalled(0, 20), "test");
	assert_null(progress_stalled(clock_now_ms(), 20)); /* the silence before does not count */
	atomic_store(&world->hangs, false);
	wait_for_rounds(world, 1);
	assert_stalled(false);
	thread_request_stop(&world->thread);
	thread_join(&world->thread);
}

static void a_thread_that_was_asked_to_stop_is_not_stalled(void **state)
{
	struct world *world = *state;

	atomic_store(&world->hangs, true);
	thread_watch(&world->thread);
	assert_int_equal(thread_start(&world->thread, "test", hang_silently, world, NULL), 0);
	assert_stalled(true);
	thread_request_stop(&world->thread);
	assert_stalled(false);
	atomic_store(&world->hangs, false);
	thread_join(&world->thread);
}

static void a_thread_that_was_never_started_counts_as_ended(void **state)
{
	struct world *world = *state;

	assert_true(thread_wait(&world->thread, 0));
	thread_join(&world->thread);
}

static void a_stop_requested_before_the_start_is_kept(void **state)
{
	struct world *world = *state;

	thread_request_stop(&world->thread);
	assert_int_equal(thread_start(&world->thread, "test", loop, world, NULL), 0);
	assert_true(thread_wait(&world->thread, LONG_MS));
	thread_join(&world->thread);
	assert_int_equal(atomic_load(&world->rounds), 0);
}

static void all_signals_except_faults_are_blocked(void **state)
{
	struct world *world = *state;
	sigset_t ours;

	assert_int_equal(thread_start(&world->thread, "test", loop, world, NULL), 0);
	wait_for_rounds(world, 1);
	thread_request_stop(&world->thread);
	thread_join(&world->thread);
	assert_int_equal(sigismember(&world->blocked, SIGTERM), 1);
	assert_int_equal(sigismember(&world->blocked, SIGPIPE), 1);
	assert_int_equal(sigismember(&world->blocked, SIGSEGV), 0);
	(void)pthread_sigmask(SIG_SETMASK, NULL, &ours);
	assert_int_equal(sigismember(&ours, SIGTERM), 0);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, opened, closed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_WORLD(a_loop_runs_until_a_stop_is_requested),
		IN_WORLD(a_request_to_stop_ends_a_pause),
		IN_WORLD(a_wake_up_ends_a_pause_and_not_the_loop),
		IN_WORLD(a_wait_for_a_hanging_thread_ends_at_its_limit),
		IN_WORLD(a_watched_thread_that_is_silent_is_stalled),
		IN_WORLD(a_thread_that_was_asked_to_stop_is_not_stalled),
		IN_WORLD(a_thread_that_was_never_started_counts_as_ended),
		IN_WORLD(a_stop_requested_before_the_start_is_kept),
		IN_WORLD(all_signals_except_faults_are_blocked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
