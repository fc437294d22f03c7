/* See program.h. */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text/last_line.h"
#include "base/text/numbers.h"
#include "base/time/clock.h"

enum {
	READ_BYTES = 4096,
	READS_MAX =
		64,   /* in a row, so that a program that writes without a pause meets its limits */
	TICK_MS = 20, /* between two looks at the process */
	KILLED_MS = 1000, /* for the end of a killed process */
	LONGEST_RUN = 15, /* of letters and digits of stderr that is not hidden */
};

/* One run. */
struct run {
	struct program *program;
	pid_t pid;
	int out; /* -1 = closed */
	int err;
	struct buf *output;
	size_t room; /* for stdout */
	bool overflow;
	struct last_line last_line;
	siginfo_t ending; /* si_pid is 0 until it has ended */
};

/* --- Who may change the program ---------------------------------------------------------------- */

/* In a directory with the sticky bit only the owner of a file can replace it. */
static bool is_safe(const struct stat *found)
{
	if (found->st_uid != 0 && found->st_uid != geteuid())
		return false;
	if ((found->st_mode & (S_IWGRP | S_IWOTH)) == 0)
		return true;
	return S_ISDIR(found->st_mode) && (found->st_mode & S_ISVTX) != 0;
}

/* `path` is cut to the directories above it, one after the other. */
static int check_owners(char *path, const char *program, struct err *err)
{
	struct stat found;
	bool last = false;

	while (!last) {
		last = strcmp(path, "/") == 0;
		if (stat(path, &found) != 0)
			return err_set(err, FAULT_CONFIG, "%s: %s", path, strerror(errno));
		if (!is_safe(&found))
			return err_set(err, FAULT_CONFIG,
				"%s is not run, because others than root and the user of inboxd "
				"may write %s: "
				"remove the write permission of the group and of others (chmod "
				"go-w), or "
				"change the owner",
				program, strcmp(path, program) == 0 ? "it" : path);
		(void)dirname(path);
	}
	return 0;
}

int program_find(const char *path, char **real, struct err *err)
{
	CLEANUP(freep) char *resolved = NULL;
	CLEANUP(freep) char *given = NULL;
	CLEANUP(freep) char *above = NULL;
	struct stat found;
	int r;

	if (path[0] != '/')
		return err_set(err, FAULT_CONFIG, "%s is not an absolute path", path);
	resolved = realpath(path, NULL);
	if (resolved == NULL || stat(resolved, &found) != 0)
		return err_set(err, FAULT_CONFIG, "%s: %s", path, strerror(errno));
	if (!S_ISREG(found.st_mode) || access(resolved, X_OK) != 0)
		return err_set(err, FAULT_CONFIG,
			"%s is no program that the user of inboxd may execute", path);
	given = strdup(path);
	above = strdup(resolved);
	if (given == NULL || above == NULL)
		return err_memory(err);
	r = check_owners(given, path, err); /* a link can be replaced where it is, too */
	if (r == 0)
		r = check_owners(above, resolved, err);
	if (r == 0) {
		*real = resolved;
		resolved = NULL;
	}
	return r;
}

/* --- The start --------------------------------------------------------------------------------- */

static bool is_inherited(const char *variable)
{
	return strncmp(variable, "INBOXD_", strlen("INBOXD_")) != 0 &&
	       strncmp(variable, "PG", strlen("PG")) != 0;
}

/* Borrows the texts. NULL: no memory. */
static char **own_environment(void)
{
	size_t count = 0;
	char **variables;

	for (size_t i = 0; environ[i] != NULL; i++)
		count++;
	variables = calloc(count + 1, sizeof(*variables));
	count = 0;
	for (size_t i = 0; variables != NULL && environ[i] != NULL; i++) {
		if (is_inherited(environ[i]))
			variables[count++] = environ[i];
	}
	return variables;
}

/* What the child does between its creation and execve(2). The signal mask of this thread and ignored signals would be
 * inherited. */
static void set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none;
	sigset_t all;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawnattr_setpgroup(attributes, 0);
	(void)posix_spawnattr_setsigmask(attributes, &none);
	(void)posix_spawnattr_setsigdefault(attributes, &all);
	(void)posix_spawnattr_setflags(
		attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* Every descriptor of inboxd is opened with CLOEXEC. The last action closes those that a library may have opened without it.
 */
static int set_actions(posix_spawn_file_actions_t *actions, int out, int err)
{
	int error =
		posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	if (error == 0)
		error = posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
	if (error == 0)
		error = posix_spawn_file_actions_adddup2(actions, err, STDERR_FILENO);
	return error == 0 ? posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1)
			  : error;
}

/* Returns an errno. */
static int spawn(struct run *run, const char *path, int out, int err)
{
	/* If whoever started inboxd ignores it, the kernel keeps no status, and gives the number to another process. */
	const struct sigaction standard = { .sa_handler = SIG_DFL };
	CLEANUP(freep) char **variables = own_environment();
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int error = variables == NULL ? ENOMEM : posix_spawn_file_actions_init(&actions);

	if (error != 0)
		return error;
	error = posix_spawnattr_init(&attributes);
	if (error == 0) {
		(void)sigaction(SIGCHLD, &standard, NULL);
		set_attributes(&attributes);
		error = set_actions(&actions, out, err);
		if (error == 0)
			error = posix_spawn(&run->pid, path, &actions, &attributes,
				run->program->command, variables);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&actions);
	return error;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* Only our end does not block. */
static bool open_pipe(int *ours, int *theirs)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return false;
	*ours = fds[0];
	*theirs = fds[1];
	return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

/* The program was found, so the kernel speaks of what is to run it. */
static const char *what_a_script_lacks(int error)
{
	if (error == ENOENT)
		return ": the interpreter of its first line (#!) or its loader does not exist";
	return error == ENOEXEC ? ": a script needs a first line like #!/bin/sh" : "";
}

static int start(struct run *run, struct err *err)
{
	CLEANUP(freep) char *path = NULL;
	const char *name = run->program->command[0];
	int out = -1;
	int error_out = -1;
	int error;
	int r = program_find(name, &path, err);

	if (r < 0)
		return r;
	error = open_pipe(&run->out, &out) && open_pipe(&run->err, &error_out)
			? spawn(run, path, out, error_out)
			: errno;
	close_fd(&out);
	close_fd(&error_out);
	return error == 0 ? 0
			  : err_set(err, FAULT_INTERNAL, "%s cannot be started: %s%s", name,
				    strerror(error), what_a_script_lacks(error));
}

/* --- Its output -------------------------------------------------------------------------------- */

static void take(struct run *run, const int *fd, const char *bytes, size_t length)
{
	if (fd == &run->err) {
		last_line_add(&run->last_line, bytes, length);
		return;
	}
	run->overflow = run->overflow || length > run->room;
	if (length > run->room)
		length = run->room;
	run->room -= length;
	buf_add(run->output, bytes, length);
}

static void receive(struct run *run, int *fd)
{
	char bytes[READ_BYTES];

	for (int reads = 0; *fd >= 0 && reads < READS_MAX; reads++) {
		ssize_t n = read(*fd, bytes, sizeof(bytes));

		if (n > 0)
			take(run, fd, bytes, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n == 0 || errno != EINTR)
			close_fd(fd);
	}
}

static void exchange(struct run *run, int timeout_ms)
{
	struct pollfd fds[] = {
		{ .fd = run->out, .events = POLLIN },
		{ .fd = run->err, .events = POLLIN },
	};

	(void)poll(fds, sizeof(fds) / sizeof(fds[0]), timeout_ms);
	receive(run, &run->out);
	receive(run, &run->err);
}

/* --- The end ----------------------------------------------------------------------------------- */

/* Does not take the status: until then the number belongs to the process and its group. */
static bool has_ended(struct run *run)
{
	return waitid(P_PID, (id_t)run->pid, &run->ending, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       run->ending.si_pid != 0;
}

/* A killed process can be in a system call that does not end. It is looked at again before the next run. The process itself can
 * have left its group, and its number is its own until the status is taken. */
static void end(struct run *run)
{
	const int64_t until_ms = clock_now_ms() + KILLED_MS;

	(void)kill(-run->pid, SIGKILL);
	(void)kill(run->pid, SIGKILL);
	while (!has_ended(run) && clock_now_ms() < until_ms)
		exchange(run, TICK_MS);
	if (run->ending.si_pid == 0) {
		run->program->left = run->pid;
		log_warn("command_not_ended", LOG_INT("pid", run->pid),
			LOG_STR("what", "the command was killed, but hangs in the kernel"));
	} else {
		(void)waitpid(run->pid, NULL, 0);
	}
	exchange(run, 0);
	close_fd(&run->out);
	close_fd(&run->err);
}

/* Returns why it was killed, or NULL: it has ended by itself. */
static const char *wait_for_end(struct run *run, const struct thread *thread)
{
	const int64_t until_ms = clock_now_ms() + run->program->timeout_ms;

	while (!has_ended(run)) {
		if (run->overflow)
			return "was killed, because it writes too much to stdout (at most 64 KiB)";
		if (thread_is_stopping(thread))
			return "was killed, because inboxd stops";
		if (clock_now_ms() >= until_ms)
			return "was killed, because it took too long";
		exchange(run, TICK_MS);
	}
	return NULL;
}

/* A shell that prints its commands, or a program that prints what it sends, can write the secret to stderr. Secrets and tokens
 * are long runs of these characters, and nearly always have a digit. The words of an error, hosts and paths are not. */
static void hide_secrets(char *text)
{
	static const char of_secrets[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+_-=~";
	static const char hidden[] = "***";

	while (*text != '\0') {
		size_t length = strspn(text, of_secrets);

		if (length > LONGEST_RUN && strcspn(text, "0123456789") < length) {
			memcpy(text, hidden, sizeof(hidden) - 1);
			memmove(text + sizeof(hidden) - 1, text + length,
				strlen(text + length) + 1);
			length = sizeof(hidden) - 1;
		}
		text += length;
		text += strcspn(text, of_secrets);
	}
}

static int failed(struct run *run, const char *how, struct err *err)
{
	const char *name = run->program->command[0];
	char line[LAST_LINE_BYTES];

	(void)last_line_end(&run->last_line);
	memcpy(line, run->last_line.text, sizeof(line));
	hide_secrets(line);
	if (line[0] == '\0')
		return err_set(
			err, FAULT_INTERNAL, "%s %s, and wrote nothing to stderr", name, how);
	return err_set(err, FAULT_INTERNAL, "%s %s: %s", name, how, line);
}

static int result_of(struct run *run, const char *killed, struct err *err)
{
	char how[64];

	if (killed != NULL)
		return failed(run, killed, err);
	if (run->overflow)
		return failed(run, "writes too much to stdout (at most 64 KiB)", err);
	(void)snprintf(how, sizeof(how), "ended with %s %d",
		run->ending.si_code == CLD_EXITED ? "exit code" : "signal", run->ending.si_status);
	if (run->ending.si_code != CLD_EXITED || run->ending.si_status != 0)
		return failed(run, how, err);
	return buf_ok(run->output) ? 0 : err_memory(err);
}

int program_run(
	struct program *program, const struct thread *thread, struct buf *out, struct err *err)
{
	struct run run = {
		.program = program, .out = -1, .err = -1, .output = out, .room = PROGRAM_OUTPUT_MAX
	};
	const char *killed;
	int r;

	if (program->left != 0 && waitpid(program->left, NULL, WNOHANG) == 0)
		return err_set(err, FAULT_INTERNAL,
			"%s is not started again: process %d, which was killed, has not ended",
			program->command[0], (int)program->left);
	program->left = 0;
	last_line_reset(&run.last_line);
	r = start(&run, err);
	if (r < 0) {
		close_fd(&run.out);
		close_fd(&run.err);
		return r;
	}
	killed = wait_for_end(&run, thread);
	end(&run);
	return result_of(&run, killed, err);
}

void program_reap_orphans(struct program *program)
{
	pid_t ended;

	if (getpid() != 1)
		return;
	while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
		if (ended == program->left)
			program->left = 0;
	}
}
