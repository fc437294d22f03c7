/*
 * See exec.h. One thread and one poll(2): the socket of inboxd, the signals, and the pipes of the processes. A message
 * that finds no free slot waits as `pending`: inboxd sends no more messages than the window, but a slot whose message
 * was cancelled is free only when its process has ended.
 */
#include "bridge/exec/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "bridge/exec/slot.h"

enum {
	WAIT_MAX_MS = 60000,
	END_MS =
		5000, /* how long the processes of --lines may take to end after their stdin is closed */
	KILL_WAIT_MS = 1000, /* for all processes together, after they were killed */
	LOG_MS = 1000,       /* log_repeats() */
	UNHEARD_MS = 10,     /* until stderr of the processes may be read again */
};

struct exec {
	const struct exec_options *options;
	struct intake intake;
	struct slot_context context;
	struct slot *slots;
	size_t count;
	struct pollfd *fds;
	struct inbox_delivery *pending;
	int window; /* that inboxd knows */
};

/* --- Before the start -------------------------------------------------------------------------- */

static bool is_program(const char *directory, size_t length, const char *name)
{
	char path[4096];
	const int size =
		length == 0 ? snprintf(path, sizeof(path), "%s", name)
			    : snprintf(path, sizeof(path), "%.*s/%s", (int)length, directory, name);

	return size > 0 && (size_t)size < sizeof(path) && access(path, X_OK) == 0;
}

/* A program that is missing is a mistake in the command line. Later it may be missing for a moment, for example while
 * it is replaced. */
static int check_program(const char *name, struct err *err)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/') != NULL) {
		if (is_program("", 0, name))
			return 0;
		return err_set(err, FAULT_USAGE,
			"exec: there is no program %s, or this user may not execute it: correct "
			"the path",
			name);
	}
	for (const char *at = path == NULL ? "/bin:/usr/bin" : path; *at != '\0';
		at += strspn(at, ":")) {
		const size_t length = strcspn(at, ":");

		if (is_program(at, length, name))
			return 0;
		at += length;
	}
	return err_set(err, FAULT_USAGE,
		"exec: there is no program \"%s\" in PATH: write its whole path", name);
}

static int exec_open(struct exec *exec, const struct exec_options *options, struct err *err)
{
	int r;

	*exec = (struct exec){ .options = options, .intake = { .signal_fd = -1 } };
	exec->window = options->intake.jobs;
	r = check_program(options->command[0], err);
	if (r == 0)
		r = slot_context_init(&exec->context, options, err);
	if (r == 0)
		r = intake_open(&exec->intake, &options->intake, err);
	if (r != 0)
		return r;
	exec->slots = calloc((size_t)options->intake.jobs, sizeof(*exec->slots));
	exec->fds =
		calloc(INTAKE_FDS + (size_t)options->intake.jobs * PROCESS_FDS, sizeof(*exec->fds));
	if (exec->slots == NULL || exec->fds == NULL)
		return err_memory(err);
	for (; exec->count < (size_t)options->intake.jobs; exec->count++)
		slot_init(&exec->slots[exec->count]);
	return 0;
}

/* Open messages go back to inboxd with the connection. */
static void exec_close(struct exec *exec)
{
	int64_t until_ms;

	for (size_t i = 0; i < exec->count; i++)
		process_kill(&exec->slots[i].process);
	until_ms = clock_now_ms() + KILL_WAIT_MS;
	for (size_t i = 0; i < exec->count; i++)
		slot_fini(&exec->slots[i], until_ms);
	intake_close(&exec->intake);
	slot_context_fini(&exec->context);
	free(exec->slots);
	free(exec->fds);
	log_repeats(true);
}

/* --- A round ----------------------------------------------------------------------------------- */

static struct slot *ready_slot(struct exec *exec)
{
	for (size_t i = 0; i < exec->count; i++) {
		if (slot_is_ready(&exec->slots[i], &exec->context))
			return &exec->slots[i];
	}
	return NULL;
}

static int count_slots(const struct exec *exec, bool (*is)(const struct slot *slot))
{
	int count = 0;

	for (size_t i = 0; i < exec->count; i++)
		count += is(&exec->slots[i]);
	return count;
}

/* With no process to wait for, the message goes back without a lost attempt. */
static bool put_off(struct exec *exec)
{
	if (!exec->options->lines || count_slots(exec, slot_is_usable) > 0)
		return false;
	(void)inbox_delivery_snooze(exec->pending, SLOT_START_AGAIN_MS);
	exec->pending = NULL;
	return true;
}

/* Gives messages to the slots that are ready. INTAKE_NONE, INTAKE_ENDED, a fault. */
static int take_messages(struct exec *exec, struct err *err)
{
	struct slot *slot;
	int r = 0;

	while (r == 0) {
		if (exec->pending == NULL) {
			r = intake_next(&exec->intake, &exec->pending, err);
			if (r != 0)
				return r;
		} else if (inbox_delivery_cancelled(exec->pending) != NULL) {
			/* only releases it */
			(void)inbox_delivery_skipped(exec->pending);
			exec->pending = NULL;
			continue;
		}
		slot = ready_slot(exec);
		if (slot == NULL && !put_off(exec))
			return INTAKE_NONE;
		if (slot == NULL)
			continue;
		r = slot_begin(slot, &exec->context, exec->pending, err);
		exec->pending = NULL;
	}
	return r;
}

static void wait_for_news(struct exec *exec)
{
	int64_t wait_ms = intake_prepare(&exec->intake, exec->fds);
	const int64_t now_ms = clock_now_ms();

	/* More messages may have arrived, but the pending one is first. */
	if (exec->pending != NULL || wait_ms > LOG_MS)
		wait_ms = LOG_MS;
	if (!process_is_heard() && wait_ms > UNHEARD_MS)
		wait_ms = UNHEARD_MS;
	for (size_t i = 0; i < exec->count; i++) {
		const int64_t due_ms = slot_due_ms(&exec->slots[i]);

		process_prepare(&exec->slots[i].process, &exec->fds[INTAKE_FDS + i * PROCESS_FDS]);
		if (due_ms - now_ms < wait_ms)
			wait_ms = due_ms > now_ms ? due_ms - now_ms : 0;
	}
	(void)poll(exec->fds, INTAKE_FDS + exec->count * PROCESS_FDS, (int)wait_ms);
	log_repeats(false);
}

static struct process *find_process(void *arg, pid_t pid)
{
	struct exec *exec = arg;

	for (size_t i = 0; i < exec->count; i++) {
		if (exec->slots[i].process.pid == pid)
			return &exec->slots[i].process;
	}
	return NULL;
}

static int reap(struct exec *exec, struct err *err)
{
	struct process *process;
	int r = 0;

	while (r == 0 && (process = process_reap(find_process, exec)) != NULL)
		/* the process is the first member of its slot */
		r = slot_process_ended((struct slot *)process, &exec->context, err);
	return r;
}

/* inboxd must not send messages that no process can take. */
static void update_window(struct exec *exec)
{
	const int window =
		exec->options->lines ? count_slots(exec, slot_is_usable) : (int)exec->count;

	if (window == exec->window || exec->intake.stopping)
		return;
	if (inbox_handler_window(exec->intake.handler, window) == 0)
		exec->window = window;
}

static int advance(struct exec *exec, struct err *err)
{
	int r;

	intake_take_signals(&exec->intake);
	exec->context.stopping = exec->intake.stopping;
	r = reap(exec, err);
	for (size_t i = 0; i < exec->count && r == 0; i++) {
		r = slot_advance(&exec->slots[i], &exec->context, err);
		if (r == 0 && exec->options->lines)
			r = slot_start_when_due(&exec->slots[i], &exec->context, err);
	}
	update_window(exec);
	return r;
}

/* --- The whole --------------------------------------------------------------------------------- */

/* The processes of --lines end when they have read the end of their stdin. */
static int end_processes(struct exec *exec, struct err *err)
{
	const int64_t until_ms = clock_now_ms() + END_MS;
	int r = 0;

	for (size_t i = 0; i < exec->count; i++)
		process_end_input(&exec->slots[i].process);
	while (r == 0 && count_slots(exec, slot_is_alive) > 0 && clock_now_ms() < until_ms &&
		!exec->intake.abandoned) {
		wait_for_news(exec);
		r = advance(exec, err);
	}
	return r;
}

static int run(struct exec *exec, struct err *err)
{
	int r = advance(exec, err);

	while (r == 0 && !exec->intake.abandoned) {
		r = take_messages(exec, err);
		if (r != INTAKE_NONE)
			break;
		wait_for_news(exec);
		r = advance(exec, err);
	}
	return r == INTAKE_ENDED ? end_processes(exec, err) : r;
}

int exec_run(const struct exec_options *options, struct err *err)
{
	struct exec exec;
	int r = exec_open(&exec, options, err);

	if (r == 0)
		r = run(&exec, err);
	exec_close(&exec);
	return r;
}
