/* inbox_handler_serve(): a complete handler program in one call, with its signals, its log and its exit code. */
#include "inboxd/handler.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

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
