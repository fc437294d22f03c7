/*
 * See process.h. The child reports a failed execve(2) through a pipe that a successful one closes. No call waits for that,
 * because execve(2) can hang if a file system does not respond. Between fork(2) and
 * execve(2) it uses only async-signal-safe functions, and execvpe(3), which uses only the environment and its stack.
 */
#include "bridge/exec/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/log_output.h"
#include "base/time/clock.h"

enum {
	READ_BYTES = 65536,
	START_MS = 10000, /* for execve(2) */
	READS_MAX =
		64, /* in a row, so that one command that writes without a pause does not stop the others */
	PAUSE_NS = 2000000, /* between two looks at a process that was killed */
};

/* The ends of the pipes that the child gets, and the pipe on which it reports. */
struct child_ends {
	int in;
	int out;
	int err;
	int report;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void process_init(struct process *process, size_t output_max)
{
	*process = (struct process){ .in = -1, .out = -1, .err = -1, .report = -1 };
	process->output.limit = output_max;
	last_line_reset(&process->last_line);
}

static void close_pipes(struct process *process)
{
	close_fd(&process->in);
	close_fd(&process->out);
	close_fd(&process->err);
	close_fd(&process->report);
}

/* A killed process can still be in a system call that does not end, for example because a file system does not respond. Such a
 * process is left to process_reap(), or after the end of inboxd to the init of the system. */
static void wait_for_end(pid_t pid, int64_t until_ms)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	pid_t ended;

	while ((ended = waitpid(pid, NULL, WNOHANG)) == 0 && clock_now_ms() < until_ms)
		(void)nanosleep(&pause, NULL);
	if (ended == 0)
		log_warn("command_not_ended", LOG_INT("pid", pid),
			LOG_STR("what", "the command was killed, but hangs in the kernel"));
}

void process_fini(struct process *process, int64_t until_ms)
{
	if (process->pid != 0) {
		process_kill(process);
		wait_for_end(process->pid, until_ms);
		process->pid = 0;
	}
	close_pipes(process);
	buf_fini(&process->input);
	buf_fini(&process->output);
}

/* --- The start --------------------------------------------------------------------------------- */

static void run_child(
	const struct child_ends *ends, pid_t parent, char *const *command, char *const *environment)
{
	const struct sigaction standard = { .sa_handler = SIG_DFL };
	sigset_t none;
	int error;

	sigemptyset(&none);
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* inboxd has ended before the line above */
	FAULT_POINT("before_exec");
	if (dup2(ends->in, STDIN_FILENO) >= 0 && dup2(ends->out, STDOUT_FILENO) >= 0 &&
		dup2(ends->err, STDERR_FILENO) >= 0) {
		(void)sigaction(SIGPIPE, &standard, NULL);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		(void)execvpe(command[0], command, environment);
	}
	error = errno;
	/* If the parent does not read it, nobody does. */
	if (write(ends->report, &error, sizeof(error)) < 0)
		_exit(2);
	_exit(1);
}

/* `ours` gets the end that inboxd uses: the one to write to if `writes`. Only that one does not block. */
static bool open_pipe(int *ours, int *theirs, bool writes)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return false;
	*ours = fds[writes ? 1 : 0];
	*theirs = fds[writes ? 0 : 1];
	return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0;
}

/* Returns an errno. The child's ends are open afterwards also if it fails. */
static int fork_child(struct process *process, struct child_ends *ends, char *const *command,
	char *const *environment)
{
	const pid_t parent = getpid();

	if (!open_pipe(&process->in, &ends->in, true) ||
		!open_pipe(&process->out, &ends->out, false) ||
		!open_pipe(&process->err, &ends->err, false) ||
		!open_pipe(&process->report, &ends->report, false))
		return errno;
	process->pid = fork();
	if (process->pid == 0)
		run_child(ends, parent, command, environment);
	if (process->pid < 0) {
		process->pid = 0;
		return errno;
	}
	/* The child makes this call, too: a kill of the group must find it, whichever process makes the call first. */
	(void)setpgid(process->pid, process->pid);
	return 0;
}

/* Closes the pipe when it is known whether the program has started. */
static void read_report(struct process *process)
{
	int error = 0;
	ssize_t n;

	if (process->report < 0)
		return;
	n = read(process->report, &error, sizeof(error));
	if (n == (ssize_t)sizeof(error))
		process->start_error = error;
	if (n >= 0)
		close_fd(&process->report);
}

int process_start(
	struct process *process, char *const *command, char *const *environment, struct err *err)
{
	struct child_ends ends = { -1, -1, -1, -1 };
	int error;

	process->killed = false;
	process->overflow = false;
	process->input_open = true;
	process->sent = 0;
	process->start_error = 0;
	process->start_by_ms = clock_now_ms() + START_MS;
	buf_reset(&process->input);
	buf_reset(&process->output);
	last_line_reset(&process->last_line);
	error = fork_child(process, &ends, command, environment);
	close_fd(&ends.in);
	close_fd(&ends.out);
	close_fd(&ends.err);
	close_fd(&ends.report);
	if (error == 0)
		return 0;
	close_pipes(process);
	return err_set(err, FAULT_INTERNAL, "cannot start %s: %s", command[0], strerror(error));
}

bool process_start_hangs(const struct process *process)
{
	return process->pid != 0 && !process->killed && process->report >= 0 &&
	       clock_now_ms() >= process->start_by_ms;
}

/* --- Pipes ------------------------------------------------------------------------------------- */

bool process_write(struct process *process, struct bytes bytes, bool more)
{
	process->input_open = more;
	if (process->sent == process->input.length) {
		buf_trim(&process->input, READ_BYTES);
		buf_reset(&process->input);
		process->sent = 0;
	}
	buf_add(&process->input, bytes.data, bytes.length);
	return buf_ok(&process->input);
}

void process_end_input(struct process *process)
{
	close_fd(&process->in);
}

void process_kill(struct process *process)
{
	if (process->pid == 0 || process->killed)
		return;
	process->killed = true;
	/* The group exists until its leader is reaped, so the number cannot be that of another group. The leader can have left it. */
	(void)kill(-process->pid, SIGKILL);
	(void)kill(process->pid, SIGKILL);
	close_fd(&process->in);
}

/* A command that writes faster than our stderr is read must wait, as if it wrote there itself. If nobody reads our stderr,
 * it must not. */
bool process_is_heard(void)
{
	return log_output_is_ready(READ_BYTES);
}

void process_prepare(const struct process *process, struct pollfd fds[PROCESS_FDS])
{
	const bool sending = process->sent < process->input.length;

	fds[0] = (struct pollfd){ .fd = sending ? process->in : -1, .events = POLLOUT };
	fds[1] = (struct pollfd){ .fd = process->out, .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = process_is_heard() ? process->err : -1, .events = POLLIN };
	fds[3] = (struct pollfd){ .fd = process->report, .events = POLLIN };
}

/* A command need not read its whole input. */
static void send_input(struct process *process)
{
	while (process->in >= 0 && process->sent < process->input.length) {
		const ssize_t n = write(process->in, process->input.data + process->sent,
			process->input.length - process->sent);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			close_fd(&process->in);
		else
			process->sent += (size_t)n;
	}
	if (!process->input_open)
		close_fd(&process->in);
}

static void take_output(struct process *process, const char *bytes, size_t length)
{
	struct buf *output = &process->output;
	const size_t room = output->limit - output->length;

	process->overflow = process->overflow || length > room;
	buf_add(output, bytes, length < room ? length : room);
	if (buf_ok(output))
		return;
	/* No memory for it has the same effect as no room. */
	buf_cut(output, output->length);
	process->overflow = true;
}

static void take_stderr(struct process *process, const char *bytes, size_t length)
{
	last_line_add(&process->last_line, bytes, length);
	log_output_add(bytes, length);
}

/* What a process that has ended has written to stderr is added in any case, or dropped and counted. */
static void receive(
	struct process *process, int *fd, void (*take)(struct process *, const char *, size_t))
{
	static char bytes[READ_BYTES];

	for (int reads = 0; *fd >= 0 && reads < READS_MAX; reads++) {
		ssize_t n;

		if (take == take_stderr && process->pid != 0 && !process_is_heard())
			return;
		n = read(*fd, bytes, sizeof(bytes));

		if (n > 0)
			take(process, bytes, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			return;
		else if (n == 0 || errno != EINTR)
			close_fd(fd);
	}
}

void process_exchange(struct process *process)
{
	read_report(process);
	send_input(process);
	receive(process, &process->out, take_output);
	receive(process, &process->err, take_stderr);
}

/* --- The end ----------------------------------------------------------------------------------- */

static void finish(struct process *process, const siginfo_t *info)
{
	process->ending = (struct ending){
		.signalled = info->si_code != CLD_EXITED,
		.number = info->si_status,
	};
	/* First the rest of its group, which may hold the pipes open. What the process itself has written is in the pipes
	 * already. */
	(void)kill(-process->pid, SIGKILL);
	(void)waitpid(process->pid, NULL, WNOHANG); /* it is a zombie, so this takes it */
	process->pid = 0;
	close_fd(&process->in);
	process_exchange(process);
	close_pipes(process);
}

struct process *process_reap(struct process *(*find)(void *arg, pid_t pid), void *arg)
{
	siginfo_t info = { .si_pid = 0 };
	struct process *process;

	/* The rest of its stderr must fit; a pipe holds no more than that. */
	if (!process_is_heard())
		return NULL;
	/* Without taking the status: until then the number belongs to the process and its group. */
	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
		process = find(arg, info.si_pid);
		if (process != NULL) {
			finish(process, &info);
			return process;
		}
		(void)waitpid(info.si_pid, NULL, WNOHANG);
		info.si_pid = 0;
	}
	return NULL;
}
