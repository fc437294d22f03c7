/*
 * See log_output.h. A thread is used although poll(2) can say that a pipe has room: others may write to the same pipe
 * before the write(2), and the flag O_NONBLOCK would change the pipe for them, too. A regular file can hang without
 * any sign before it.
 *
 * Lines are written in pieces of at most PIPE_BUF bytes that end with a line if one ends there, so that they do not mix
 * with the lines of other processes.
 */
#include "base/log_output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/threads/thread.h"
#include "base/time/clock.h"

enum { ROOM_MS = 1000 };

static char ring[LOG_OUTPUT_BYTES];

static struct {
	pthread_mutex_t lock;
	struct thread thread;
	struct wake written; /* poked after each write, for log_output_flush() */
	bool started;
	size_t first;
	size_t length;
	int64_t progress_ms; /* the last write, or the first line behind it */
	int64_t unreported;  /* dropped lines */
	atomic_llong dropped;
} output = { .lock = PTHREAD_MUTEX_INITIALIZER, .thread = THREAD_INIT, .written = WAKE_INIT };

static int64_t count_lines(const char *bytes, size_t length)
{
	int64_t count = 0;

	for (size_t i = 0; i < length; i++)
		count += bytes[i] == '\n';
	return count == 0 ? 1 : count;
}

/* With the lock. */
static void drop(const char *bytes, size_t length)
{
	int64_t lines = count_lines(bytes, length);

	output.unreported += lines;
	(void)atomic_fetch_add(&output.dropped, lines);
}

/* --- Writing ----------------------------------------------------------------------------------- */

/* Returns the bytes that were written. 0: there is no room yet. -1: stderr does not work; the error cannot be reported
 * anywhere. */
static ssize_t write_some(const char *bytes, size_t length)
{
	struct pollfd wait = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	if (poll(&wait, 1, ROOM_MS) == 0)
		return 0;
	n = write(STDERR_FILENO, bytes, length);
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

static void write_directly(const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = write_some(bytes, length);

		if (n < 0) {
			(void)pthread_mutex_lock(&output.lock);
			drop(bytes, length);
			(void)pthread_mutex_unlock(&output.lock);
			return;
		}
		bytes += n;
		length -= (size_t)n;
	}
}

/* --- The ring. With the lock ------------------------------------------------------------------- */

static void put(const char *bytes, size_t length)
{
	size_t at = (output.first + output.length) % LOG_OUTPUT_BYTES;
	size_t part = LOG_OUTPUT_BYTES - at < length ? LOG_OUTPUT_BYTES - at : length;

	memcpy(ring + at, bytes, part);
	memcpy(ring, bytes + part, length - part);
	output.length += length;
}

/* Copies the next piece. */
static size_t peek(char piece[PIPE_BUF])
{
	size_t length = output.length < PIPE_BUF ? output.length : PIPE_BUF;
	size_t part = LOG_OUTPUT_BYTES - output.first;
	size_t line;

	if (part > length)
		part = length;
	memcpy(piece, ring + output.first, part);
	memcpy(piece + part, ring, length - part);
	for (line = length; line > 0 && piece[line - 1] != '\n'; line--)
		;
	return line > 0 ? line : length;
}

static void consume(size_t length)
{
	output.first = (output.first + length) % LOG_OUTPUT_BYTES;
	output.length -= length;
	output.progress_ms = clock_now_ms();
}

/* --- The thread -------------------------------------------------------------------------------- */

/* Others only add while this thread writes without the lock. Returns the pause in ms. */
static int64_t write_piece(void *arg)
{
	char piece[PIPE_BUF];
	size_t length;
	ssize_t n;

	(void)arg;
	(void)pthread_mutex_lock(&output.lock);
	length = peek(piece);
	(void)pthread_mutex_unlock(&output.lock);
	if (length == 0)
		return ROOM_MS;
	n = write_some(piece, length);
	(void)pthread_mutex_lock(&output.lock);
	if (n < 0)
		drop(piece, length);
	if (n != 0)
		consume(n < 0 ? length : (size_t)n);
	length = output.length;
	(void)pthread_mutex_unlock(&output.lock);
	wake_poke(&output.written);
	return length == 0 ? ROOM_MS : 0;
}

static void run(void *arg)
{
	thread_loop(&output.thread, write_piece, arg);
}

int log_output_start(struct err *err)
{
	int r;

	if (output.started)
		return 0;
	r = thread_init(&output.thread, err);
	if (r == 0)
		r = wake_init(&output.written, err);
	if (r == 0)
		r = thread_start(&output.thread, "log", run, NULL, err);
	output.started = r == 0;
	return r;
}

void log_output_add(const char *bytes, size_t length)
{
	bool added;

	if (!output.started) {
		write_directly(bytes, length);
		return;
	}
	(void)pthread_mutex_lock(&output.lock);
	added = length <= LOG_OUTPUT_BYTES - output.length;
	if (output.length == 0)
		output.progress_ms = clock_now_ms();
	if (added)
		put(bytes, length);
	else
		drop(bytes, length);
	(void)pthread_mutex_unlock(&output.lock);
	if (added)
		thread_wake(&output.thread);
}

bool log_output_is_ready(size_t length)
{
	bool ready;

	(void)pthread_mutex_lock(&output.lock);
	ready = length <= LOG_OUTPUT_BYTES - output.length ||
		clock_now_ms() - output.progress_ms >= LOG_OUTPUT_STALLED;
	(void)pthread_mutex_unlock(&output.lock);
	return ready;
}

/* --- The end ----------------------------------------------------------------------------------- */

static bool is_empty(void)
{
	bool empty;

	(void)pthread_mutex_lock(&output.lock);
	empty = output.length == 0;
	(void)pthread_mutex_unlock(&output.lock);
	return empty;
}

/* Waits in short steps, because another thread that waits here may have taken the wake-up. */
void log_output_flush(int64_t timeout_ms)
{
	int64_t until_ms = clock_now_ms() + timeout_ms;

	while (output.started && !is_empty() && clock_now_ms() < until_ms)
		(void)wake_wait(&output.written, 10);
}

void log_output_end(int64_t timeout_ms)
{
	log_output_flush(timeout_ms);
	if (!output.started || !is_empty())
		return;
	thread_request_stop(&output.thread);
	if (!thread_wait(&output.thread, timeout_ms))
		return;
	thread_join(&output.thread);
	output.started = false;
	thread_fini(&output.thread);
	wake_fini(&output.written);
}

/* --- What was dropped -------------------------------------------------------------------------- */

int64_t log_output_dropped(void)
{
	return (int64_t)atomic_load(&output.dropped);
}

int64_t log_output_take_dropped(void)
{
	int64_t count = 0;

	(void)pthread_mutex_lock(&output.lock);
	if (output.length < LOG_OUTPUT_BYTES / 2) {
		count = output.unreported;
		output.unreported = 0;
	}
	(void)pthread_mutex_unlock(&output.lock);
	return count;
}
