/* Fault points stop the thread that reaches them, so nothing behind a point is done. The suite `faults` covers the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/faultpoint.h"

#define ROUNDS 20
#define LIMIT  30 /* s */

static void *reach(void *arg)
{
	atomic_int *passed = arg;

	(void)faultpoint_hit("here");
	for (;;)
		atomic_store(passed, 1);
	return NULL;
}

/* The main thread waits: the kernel would let it take a signal that is for the process. */
static void run(atomic_int *passed)
{
	pthread_t thread;

	(void)alarm(LIMIT);
	if (pthread_create(&thread, NULL, reach, passed) == 0)
		(void)pthread_join(thread, NULL);
	_exit(1);
}

static void a_stop_is_not_passed_by_its_thread(void **state)
{
	char path[] = "/tmp/faultpoint-XXXXXX";
	char hits[sizeof(path) + sizeof(".hits")];
	int fd = mkstemp(path);
	atomic_int *passed = mmap(
		NULL, sizeof(*passed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(passed != MAP_FAILED);
	assert_int_equal(dprintf(fd, "here stop\n"), 10);
	assert_int_equal(close(fd), 0);
	assert_int_equal(setenv("INBOXD_FAULTPOINTS", path, 1), 0);
	for (int i = 0; i < ROUNDS; i++) {
		int status = 0;
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0)
			run(passed);
		assert_int_equal(waitpid(child, &status, WUNTRACED), child);
		assert_true(WIFSTOPPED(status));
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(atomic_load(passed), 0);
	}
	(void)snprintf(hits, sizeof(hits), "%s.hits", path);
	assert_int_equal(unlink(hits), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(munmap(passed, sizeof(*passed)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_is_not_passed_by_its_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
