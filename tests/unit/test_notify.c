/* What a service manager hears on its notification socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/notify.h"

struct manager {
	char directory[64];
	struct sockaddr_un at;
	int fd;
	char heard[512];
};

static int listening(void **state)
{
	static struct manager manager;

	manager.at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(manager.directory, sizeof(manager.directory), "/tmp/test_notify.XXXXXX");
	if (mkdtemp(manager.directory) == NULL)
		return -1;
	(void)snprintf(
		manager.at.sun_path, sizeof(manager.at.sun_path), "%s/notify", manager.directory);
	manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (manager.fd < 0 || bind(manager.fd, (struct sockaddr *)&manager.at, sizeof(manager.at)))
		return -1;
	*state = &manager;
	return setenv("NOTIFY_SOCKET", manager.at.sun_path, 1);
}

static int gone(void **state)
{
	struct manager *manager = *state;

	(void)unsetenv("NOTIFY_SOCKET");
	(void)close(manager->fd);
	(void)unlink(manager->at.sun_path);
	return rmdir(manager->directory);
}

/* A datagram to a Unix socket is there when the call that sent it returns: no waiting. */
static const char *heard(struct manager *manager)
{
	ssize_t got = recv(manager->fd, manager->heard, sizeof(manager->heard) - 1, MSG_DONTWAIT);

	manager->heard[got > 0 ? got : 0] = '\0';
	return manager->heard;
}

/* A build without libsystemd tells nobody anything. */
static void assert_heard(struct manager *manager, const char *text)
{
	assert_string_equal(heard(manager), notify_is_built_in() ? text : "");
}

static void ready_is_sent(void **state)
{
	notify_ready();
	assert_heard(*state, "READY=1");
}

static void stopping_is_sent(void **state)
{
	notify_stopping();
	assert_heard(*state, "STOPPING=1");
}

static void without_a_service_manager_nothing_happens(void **state)
{
	(void)unsetenv("NOTIFY_SOCKET");
	notify_ready();
	assert_string_equal(heard(*state), "");
}

static void a_missing_service_manager_is_no_failure(void **state)
{
	(void)setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
	notify_ready();
	assert_string_equal(heard(*state), "");
}

#define WITH_MANAGER(test) cmocka_unit_test_setup_teardown(test, listening, gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_MANAGER(ready_is_sent),
		WITH_MANAGER(stopping_is_sent),
		WITH_MANAGER(without_a_service_manager_nothing_happens),
		WITH_MANAGER(a_missing_service_manager_is_no_failure),
	};

	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
