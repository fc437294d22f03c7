/*
 * The public functions of the handler object: new, next, run, stop, and serve, a complete handler program with its
 * signals and its log. The library waits only here, in one poll(2).
 *
 * While the program handles deliveries quickly, their answers are sent together, because a system call for each would
 * cost more than the handling. When a delivery takes longer, the answers are sent before the next one is handed out.
 * So no answer waits for the work on another message.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/handler.h"

enum {
	QUICK_US = 200,     /* a delivery that is handled within this time is quick */
	QUICK_RUN = 16,     /* after this many in a row, answers wait for each other, */
	HELD_US = 5000,     /* for this long at most, */
	HELD_BYTES = 65536, /* and up to this many bytes */
};

static int fill(struct inbox_handler *handler, const struct inbox_handler_options *options)
{
	handler->wire.fd = -1;
	handler->window = -1;
	handler->max_line = IH_MAX_LINE;
	handler->backoff.first_ms = options->backoff_ms;
	handler->backoff.max_ms = options->backoff_max_ms;
	handler->batch_ordered = options->batch_ordered;
	handler->log = options->log;
	handler->log_arg = options->log_arg;
	atomic_init(&handler->stop_asked, false);
	TAILQ_INIT(&handler->ready);
	TAILQ_INIT(&handler->open);
	ih_pool_init(&handler->pool);
	handler->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (handler->wake_fd < 0)
		return ih_fail(NULL, INBOX_ERROR_SYSTEM,
			"no eventfd for a handler: %s; look at the limit of open files",
			strerror(errno));
	handler->socket = strdup(options->socket);
	handler->reader = ih_reader_new(&handler->pool);
	ih_options_hello(&handler->hello, options);
	if (handler->socket == NULL || handler->reader == NULL || !buf_ok(&handler->hello))
		return ih_fail(NULL, INBOX_ERROR_MEMORY, "out of memory for a handler");
	return 0;
}

int inbox_handler_new(struct inbox_handler **out, const struct inbox_handler_options *options)
{
	struct inbox_handler_options own;
	struct inbox_handler *handler;
	int r = ih_options_complete(&own, options);

	if (r < 0)
		return r;
	handler = calloc(1, sizeof(*handler));
	if (handler == NULL) {
		ih_fail(NULL, INBOX_ERROR_MEMORY, "out of memory for a handler");
		return INBOX_ERROR_MEMORY;
	}
	r = fill(handler, &own);
	if (r < 0) {
		inbox_handler_free(handler);
		return r;
	}
	*out = handler;
	return 0;
}

void inbox_handler_free(struct inbox_handler *handler)
{
	struct inbox_delivery *delivery;

	if (handler == NULL)
		return;
	handler->state = IH_CLOSED;
	ih_connection_lost(handler, "freed");
	while ((delivery = TAILQ_FIRST(&handler->open)) != NULL)
		ih_let_go(delivery);
	ih_reader_free(handler->reader);
	ih_pool_fini(&handler->pool);
	buf_fini(&handler->hello);
	free(handler->socket);
	if (handler->wake_fd >= 0)
		close(handler->wake_fd);
	free(handler);
}

void inbox_handler_stop(struct inbox_handler *handler)
{
	const int saved = errno;
	const uint64_t one = 1;

	atomic_store(&handler->stop_asked, true);
	/* The write fails only if the counter is full. The eventfd is readable then, too. */
	if (write(handler->wake_fd, &one, sizeof(one)) < 0)
		errno = saved;
}

int inbox_handler_flush(struct inbox_handler *handler)
{
	if (handler->wire.fd >= 0 && ih_wire_flush(&handler->wire) == 0)
		handler->pace.held_us = 0;
	return 0;
}

int inbox_handler_window(struct inbox_handler *handler, int max_in_flight)
{
	const size_t before = handler->wire.out.length;

	if (max_in_flight < 0 || max_in_flight > IH_MAX_WINDOW)
		return ih_fail(handler, INBOX_ERROR_ARGUMENT,
			"a window of %d is not between 0 and %d: it stays as it was", max_in_flight,
			IH_MAX_WINDOW);
	handler->window = max_in_flight;
	ih_lines_add_window(handler);
	if (!ih_is_whole(&handler->wire.out, before))
		return ih_fail(handler, INBOX_ERROR_MEMORY,
			"out of memory for a window: it holds from the next connection on");
	return inbox_handler_flush(handler);
}

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Counts quick deliveries by the time since the last one was handed out. */
static void note_handling(struct inbox_handler *handler, int64_t now)
{
	if (handler->pace.handed_us == 0)
		return;
	if (now - handler->pace.handed_us >= QUICK_US)
		handler->pace.quick = 0;
	else if (handler->pace.quick < QUICK_RUN)
		handler->pace.quick++;
	handler->pace.handed_us = 0;
	if (handler->pace.held_us == 0 && ih_wire_pending(&handler->wire) > 0)
		handler->pace.held_us = now;
}

static bool answers_may_wait(const struct inbox_handler *handler, int64_t now)
{
	const size_t pending = ih_wire_pending(&handler->wire);

	if (pending == 0)
		return true;
	return handler->pace.quick >= QUICK_RUN && pending < HELD_BYTES &&
	       now - handler->pace.held_us < HELD_US;
}

/* Returns a delivery that was received already, unless something else must be done first. */
static struct inbox_delivery *take_at_once(struct inbox_handler *handler)
{
	const int64_t now = now_us();
	struct inbox_delivery *delivery;

	note_handling(handler, now);
	if (atomic_load(&handler->stop_asked) || TAILQ_EMPTY(&handler->ready))
		return NULL;
	if (!answers_may_wait(handler, now))
		inbox_handler_flush(handler);
	handler->pace.handed_us = now;
	delivery = TAILQ_FIRST(&handler->ready);
	if (delivery != NULL)
		ih_show(handler, delivery);
	return delivery;
}

/* How long poll(2) may sleep. */
static int sleep_ms(const struct inbox_handler *handler, int64_t until_ms)
{
	int64_t left;

	if (handler->state != IH_READY && handler->due_ms < until_ms)
		until_ms = handler->due_ms;
	left = until_ms - ih_now_ms();
	if (left <= 0)
		return 0;
	return left > 60000 ? 60000 : (int)left;
}

int inbox_handler_poll_fds(struct inbox_handler *handler, struct pollfd fds[INBOX_POLL_FDS])
{
	const bool sending = ih_wire_pending(&handler->wire) > 0;

	fds[0] = (struct pollfd){
		.fd = handler->wire.fd,
		.events = (short)(sending ? POLLIN | POLLOUT : POLLIN),
	};
	/* After a stop the eventfd stays readable, so it is not polled any more. */
	fds[1] = (struct pollfd){
		.fd = handler->state < IH_DRAINING ? handler->wake_fd : -1,
		.events = POLLIN,
	};
	return TAILQ_EMPTY(&handler->ready) ? sleep_ms(handler, INT64_MAX) : 0;
}

static void wait_for_news(struct inbox_handler *handler, int64_t until_ms)
{
	struct pollfd fds[INBOX_POLL_FDS];

	inbox_handler_poll_fds(handler, fds);
	/* poll(2) can be interrupted, or fail for lack of kernel memory. The caller checks everything in any case. */
	poll(fds, INBOX_POLL_FDS, sleep_ms(handler, until_ms));
}

/* One round of next(): 0 with a delivery, or the reason why there is none. INBOX_TIMEOUT: none has arrived yet. */
static int try_next(struct inbox_handler *handler, struct inbox_delivery **out)
{
	int r;

	*out = take_at_once(handler);
	if (*out != NULL)
		return 0;
	r = ih_session_step(handler);
	if (r < 0)
		return r;
	*out = take_at_once(handler);
	if (*out != NULL)
		return 0;
	return handler->state == IH_CLOSED ? INBOX_STOPPED : INBOX_TIMEOUT;
}

int inbox_handler_next(struct inbox_handler *handler, struct inbox_delivery **out, int timeout_ms)
{
	int64_t until_ms = INT64_MAX;
	int r = try_next(handler, out);

	if (r != INBOX_TIMEOUT || timeout_ms == 0)
		return r;
	if (timeout_ms > 0)
		until_ms = ih_now_ms() + timeout_ms;
	while (r == INBOX_TIMEOUT && ih_now_ms() < until_ms) {
		wait_for_news(handler, until_ms);
		r = try_next(handler, out);
	}
	return r;
}

int inbox_handler_run(struct inbox_handler *handler, inbox_callback *callback, void *arg)
{
	struct inbox_delivery *delivery = NULL;
	int r;

	while ((r = inbox_handler_next(handler, &delivery, -1)) == 0) {
		handler->current = delivery;
		callback(delivery, arg);
		if (handler->current == NULL)
			continue;
		r = inbox_delivery_retry(delivery, -1,
			"the handler function returned without a verdict", "NO_VERDICT");
		if (r < 0)
			return r;
	}
	return r == INBOX_STOPPED ? 0 : r;
}

/* The handler that a signal stops; NULL while none runs. */
static struct inbox_handler *volatile serving;

static void on_signal(int number)
{
	(void)number;
	if (serving != NULL)
		inbox_handler_stop(serving);
}

static void log_to_stderr(const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "%s\n", text);
}

static int run_with_signals(struct inbox_handler *handler, inbox_callback *callback, void *arg)
{
	const struct sigaction action = { .sa_handler = on_signal };
	struct sigaction old_term;
	struct sigaction old_int;
	int r;

	serving = handler;
	sigaction(SIGTERM, &action, &old_term);
	sigaction(SIGINT, &action, &old_int);
	r = inbox_handler_run(handler, callback, arg);
	sigaction(SIGTERM, &old_term, NULL);
	sigaction(SIGINT, &old_int, NULL);
	serving = NULL;
	return r;
}

int inbox_handler_serve(
	const struct inbox_handler_options *options, inbox_callback *callback, void *arg)
{
	struct inbox_handler_options own = { .size = 0 };
	struct inbox_handler *handler = NULL;
	int r;

	memcpy(&own, options,
		options->size == 0 || options->size > sizeof(own) ? sizeof(own) : options->size);
	own.size = sizeof(own);
	if (own.log == NULL)
		own.log = log_to_stderr;
	r = inbox_handler_new(&handler, &own);
	if (r == 0)
		r = run_with_signals(handler, callback, arg);
	if (r < 0)
		fprintf(stderr, "%s\n", inbox_handler_error(handler));
	inbox_handler_free(handler);
	return r < 0 ? 1 : 0;
}
