/*
 * The wake-up between threads. See wake.h. An eventfd is used instead of a condition variable, because an event loop can
 * watch it together with its sockets.
 */
#include "base/threads/wake.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/threads/progress.h"

int wake_init(struct wake *wake, struct err *err)
{
	wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake->fd < 0)
		return err_set(err, FAULT_INTERNAL, "cannot make a wake-up: %s", strerror(errno));
	return 0;
}

void wake_fini(struct wake *wake)
{
	if (wake->fd >= 0)
		(void)close(wake->fd);
	wake->fd = -1;
}

void wake_poke(struct wake *wake)
{
	uint64_t one = 1;

	/* EAGAIN: the counter is full, so it is readable already. */
	if (write(wake->fd, &one, sizeof(one)) < 0)
		return;
}

void wake_clear(struct wake *wake)
{
	uint64_t pokes;

	if (read(wake->fd, &pokes, sizeof(pokes)) < 0)
		return;
}

int wake_wait(struct wake *wake, int64_t timeout_ms)
{
	struct pollfd wait = { .fd = wake->fd, .events = POLLIN };
	int timeout = timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms;
	int ready;

	progress_note(timeout);
	ready = poll(&wait, 1, timeout);
	progress_note(0);
	if (ready <= 0)
		return 0;
	wake_clear(wake);
	return 1;
}
