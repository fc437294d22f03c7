/* See intake.h. */
#include "bridge/intake.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time/clock.h"

static void log_connection(const char *text, void *arg)
{
	(void)arg;
	log_info("bridge_connection", LOG_STR("what", text));
}

/* A signal waits until the loop reads it, so none can come between a check and the wait. */
static int open_signals(struct intake *intake, struct err *err)
{
	/* A parent may have ignored it, and the kernel would then drop the exit status of every command. */
	const struct sigaction standard = { .sa_handler = SIG_DFL };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	(void)sigaction(SIGCHLD, &standard, NULL);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	intake->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (intake->signal_fd < 0)
		return err_set(err, FAULT_INTERNAL,
			"cannot watch for signals: %s; look at the limit of open files",
			strerror(errno));
	return 0;
}

static int open_handler(struct intake *intake, const struct intake_options *options,
	const char *const *types, struct err *err)
{
	const size_t count = options->topic_count > 0 ? options->topic_count
			     : types != NULL          ? 1
						      : 0;
	CLEANUP(freep) struct inbox_subscription *subscribe = calloc(count + 1, sizeof(*subscribe));
	int r;

	if (subscribe == NULL)
		return err_memory(err);
	for (size_t i = 0; i < count; i++) {
		subscribe[i].topic = options->topic_count > 0 ? options->topics[i] : NULL;
		subscribe[i].types = types;
	}
	r = inbox_handler_new(
		&intake->handler, &(struct inbox_handler_options){
					  .size = sizeof(struct inbox_handler_options),
					  .name = options->handler,
					  .socket = options->socket,
					  .consumer = options->consumer,
					  .subscribe = subscribe,
					  .subscribe_count = count,
					  .max_in_flight = options->jobs,
					  .timeout_ms = options->timeout_ms,
					  .log = log_connection,
				  });
	if (r == INBOX_ERROR_MEMORY)
		return err_memory(err);
	if (r < 0)
		return err_set(err, r == INBOX_ERROR_ARGUMENT ? FAULT_USAGE : FAULT_INTERNAL, "%s",
			inbox_handler_error(NULL));
	return 0;
}

int intake_open(struct intake *intake, const struct intake_options *options, struct err *err)
{
	CLEANUP(freep) const char **types = NULL;
	int r;

	*intake = (struct intake){ .signal_fd = -1 };
	r = open_signals(intake, err);
	if (r != 0)
		return r;
	if (options->type_count > 0) {
		types = calloc(options->type_count + 1, sizeof(*types));
		if (types == NULL)
			return err_memory(err);
		memcpy(types, options->types, options->type_count * sizeof(*types));
	}
	return open_handler(intake, options, types, err);
}

void intake_close(struct intake *intake)
{
	inbox_handler_free(intake->handler);
	intake->handler = NULL;
	if (intake->signal_fd >= 0)
		(void)close(intake->signal_fd);
	intake->signal_fd = -1;
}

int intake_next(struct intake *intake, struct inbox_delivery **out, struct err *err)
{
	const int r = inbox_handler_next(intake->handler, out, 0);

	switch (r) {
	case 0:
		return 0;
	case INBOX_TIMEOUT:
		return INTAKE_NONE;
	case INBOX_STOPPED:
		return INTAKE_ENDED;
	case INBOX_ERROR_MEMORY:
		return err_memory(err);
	default:
		return err_set(err, FAULT_SOCKET, "%s", inbox_handler_error(intake->handler));
	}
}

int intake_prepare(struct intake *intake, struct pollfd *fds)
{
	const int wait_ms = inbox_handler_poll_fds(intake->handler, fds);

	fds[INBOX_POLL_FDS] = (struct pollfd){ .fd = intake->signal_fd, .events = POLLIN };
	return wait_ms;
}

static void stop(struct intake *intake)
{
	if (intake->stopping) {
		intake->abandoned = true;
		log_warn("bridge_abandoned",
			LOG_STR("next", "inboxd delivers the open messages again"));
		return;
	}
	intake->stopping = true;
	log_info("bridge_stopping",
		LOG_STR("next", "the open messages are finished; a second signal abandons them"));
	inbox_handler_stop(intake->handler);
}

void intake_take_signals(struct intake *intake)
{
	struct signalfd_siginfo info;

	while (read(intake->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGCHLD)
			stop(intake);
	}
}

int64_t intake_deadline_ms(const struct inbox_delivery *delivery)
{
	const int64_t left_ms = inbox_delivery_left_ms(delivery);

	return clock_now_ms() + (left_ms > 0 ? left_ms : 1);
}
