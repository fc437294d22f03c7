/*
 * A handler with a loop of its own. It takes messages as they arrive and answers them ten at a time, or
 * after a second without a message. A program does this when one transaction of its own should contain
 * the effects of several messages.
 *
 *	loop [SOCKET]
 *
 * max_in_flight of the options must not be lower than TOGETHER, or the tenth message never arrives; its
 * default is higher.
 */
#include <inboxd/handler.h>

#include <signal.h>
#include <stdio.h>

enum { TOGETHER = 10, WAIT_MS = 1000 };

static struct inbox_handler *handler;

/* inbox_handler_stop() may be called in a signal handler. */
static void on_sigterm(int number)
{
	(void)number;
	inbox_handler_stop(handler);
}

/* Answers all open deliveries. Any order is allowed. */
static size_t finish(struct inbox_delivery **open, size_t count)
{
	while (count > 0)
		inbox_delivery_done(open[--count]);
	return 0;
}

static int work(void)
{
	struct inbox_delivery *open[TOGETHER];
	size_t count = 0;
	int r;

	while ((r = inbox_handler_next(handler, &open[count], count > 0 ? WAIT_MS : -1)) >= 0) {
		if (r == 0)
			printf("%s\n", inbox_delivery_event_id(open[count++]));
		if (r == INBOX_STOPPED)
			return 0;
		if (r == INBOX_TIMEOUT || count == TOGETHER)
			count = finish(open, count);
	}
	fprintf(stderr, "loop: %s\n", inbox_handler_error(handler));
	return 1;
}

int main(int argc, char **argv)
{
	const struct inbox_handler_options options = {
		.size = sizeof(options),
		.name = "loop",
		.socket = argc > 1 ? argv[1] : NULL,
	};
	int status = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (inbox_handler_new(&handler, &options) < 0) {
		fprintf(stderr, "loop: %s\n", inbox_handler_error(NULL));
		return 1;
	}
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_sigterm }, NULL);
	status = work();
	inbox_handler_free(handler);
	return status;
}
