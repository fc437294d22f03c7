/*
 * Implements migrate_watch.h. `lock` protects what the caller's thread and the watching thread share:
 * the running statement, its tag and its start, and the calls of the report function.
 */
#include "store/schema/migrate_watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/threads/thread.h"
#include "base/threads/wake.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "queries.h"

#define WATCH_MS        200
#define REPORT_MS       5000
#define LOOK_TIMEOUT_MS 5000
#define GUARDED         2
#define TAG_BYTES       128

struct migrate_watcher {
	struct db_options options;
	const struct migrate_watch *watch;
	struct thread thread;
	struct db *look;      /* the thread's; NULL until needed */
	struct wake stopping; /* ends a pause of the caller's thread */
	atomic_bool stopped;
	pthread_mutex_t lock;
	struct db *guarded[GUARDED];
	struct migrate_report running; /* migration, index; migration NULL = nothing */
	char tag[TAG_BYTES]; /* a comment in front of the statement: other sessions find it by this */
	int64_t since_ms;
};

static bool goes_on(struct migrate_watcher *watcher)
{
	const struct migrate_watch *watch = watcher->watch;

	return watch == NULL || watch->goes_on == NULL || watch->goes_on(watch->arg);
}

static void report(struct migrate_watcher *watcher, const struct migrate_report *what)
{
	if (watcher->watch != NULL && watcher->watch->report != NULL)
		watcher->watch->report(what, watcher->watch->arg);
}

void migrate_watcher_report(struct migrate_watcher *watcher, const struct migrate_report *what)
{
	(void)pthread_mutex_lock(&watcher->lock);
	report(watcher, what);
	(void)pthread_mutex_unlock(&watcher->lock);
}

/* Asks the server about the running statement. The lock is free during the wait for the answer. */
static int ask_server(struct migrate_watcher *watcher, enum query query, struct rows **rows)
{
	CLEANUP(params_fini) struct params params = PARAMS_INIT;
	int r = watcher->look == NULL ? db_new(&watcher->look, &watcher->options, NULL) : 0;

	(void)pthread_mutex_lock(&watcher->lock);
	params_text(&params, watcher->tag);
	(void)pthread_mutex_unlock(&watcher->lock);
	if (r == 0)
		r = db_open(watcher->look, NULL);
	return r == 0 ? db_run(watcher->look, query, &params, rows, NULL) : r;
}

/* Reports that a statement still runs, also when the server gives no progress. */
static void report_progress(struct migrate_watcher *watcher)
{
	CLEANUP(rows_freep) struct rows *rows = NULL;
	struct migrate_report now;
	bool any =
		ask_server(watcher, QUERY_MIGRATION_PROGRESS, &rows) == 0 && rows_count(rows) > 0;

	(void)pthread_mutex_lock(&watcher->lock);
	now = watcher->running;
	now.event = MIGRATE_GOES_ON;
	now.elapsed_ms = clock_now_ms() - watcher->since_ms;
	now.phase = any ? rows_text(rows, 0, 0) : NULL;
	now.percent = any && !rows_is_null(rows, 0, 1) ? rows_int(rows, 0, 1) : -1;
	now.waits_for = any ? rows_text(rows, 0, 2) : NULL;
	if (now.migration != NULL && now.elapsed_ms >= REPORT_MS)
		report(watcher, &now);
	(void)pthread_mutex_unlock(&watcher->lock);
}

static bool is_running(struct migrate_watcher *watcher, int64_t *since_ms)
{
	bool running;

	(void)pthread_mutex_lock(&watcher->lock);
	running = watcher->running.migration != NULL;
	*since_ms = watcher->since_ms;
	(void)pthread_mutex_unlock(&watcher->lock);
	return running;
}

/* Ends the waits of the caller's connections, then cancels the statement in the server: a statement
 * continues there after its client has closed the connection. */
static void stop_all(struct migrate_watcher *watcher)
{
	int64_t since_ms;
	bool running = is_running(watcher, &since_ms);

	atomic_store(&watcher->stopped, true);
	wake_poke(&watcher->stopping);
	for (size_t i = 0; i < GUARDED; i++)
		db_interrupt(watcher->guarded[i]);
	if (running)
		(void)ask_server(watcher, QUERY_MIGRATION_CANCEL, NULL);
}

static void watch_migration(void *arg)
{
	struct migrate_watcher *watcher = arg;
	int64_t reported_ms = clock_now_ms();
	int64_t since_ms;

	while (!thread_is_stopping(&watcher->thread)) {
		if (!goes_on(watcher)) {
			stop_all(watcher);
			return;
		}
		if (is_running(watcher, &since_ms) &&
			clock_now_ms() - (reported_ms > since_ms ? reported_ms : since_ms) >=
				REPORT_MS) {
			report_progress(watcher);
			reported_ms = clock_now_ms();
		}
		thread_pause(&watcher->thread, WATCH_MS);
	}
}

int migrate_watcher_new(struct migrate_watcher **out, const struct db_options *options,
	const struct migrate_watch *watch, struct err *err)
{
	CLEANUP(migrate_watcher_freep)
	struct migrate_watcher *watcher = calloc(1, sizeof(*watcher));
	int r;

	if (watcher == NULL)
		return err_memory(err);
	watcher->options = *options;
	watcher->options.statement_timeout_ms = LOOK_TIMEOUT_MS;
	watcher->watch = watch;
	watcher->thread = (struct thread)THREAD_INIT;
	watcher->stopping = (struct wake)WAKE_INIT;
	(void)pthread_mutex_init(&watcher->lock, NULL);
	r = thread_init(&watcher->thread, err);
	if (r == 0)
		r = wake_init(&watcher->stopping, err);
	if (r != 0)
		return r;
	*out = watcher;
	watcher = NULL;
	return 0;
}

int migrate_watcher_start(
	struct migrate_watcher *watcher, struct db *first, struct db *second, struct err *err)
{
	watcher->guarded[0] = first;
	watcher->guarded[1] = second;
	return thread_start(&watcher->thread, "migration", watch_migration, watcher, err);
}

void migrate_watcher_free(struct migrate_watcher *watcher)
{
	if (watcher == NULL)
		return;
	thread_request_stop(&watcher->thread);
	thread_join(&watcher->thread);
	db_free(watcher->look);
	wake_fini(&watcher->stopping);
	thread_fini(&watcher->thread);
	(void)pthread_mutex_destroy(&watcher->lock);
	free(watcher);
}

static void expect(struct migrate_watcher *watcher, const struct migrate_statement *statement)
{
	(void)pthread_mutex_lock(&watcher->lock);
	watcher->running = (struct migrate_report){ 0 };
	if (statement != NULL) {
		watcher->running.migration = statement->migration;
		watcher->running.index = statement->index;
		(void)snprintf(watcher->tag, sizeof(watcher->tag),
			"/* inboxd migration %s %016" PRIx64 " */", statement->migration,
			random_u64());
	}
	watcher->since_ms = clock_now_ms();
	(void)pthread_mutex_unlock(&watcher->lock);
}

int migrate_watcher_run(struct migrate_watcher *watcher, struct db *db,
	const struct migrate_statement *statement, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT;
	int r;

	expect(watcher, statement);
	buf_add_str(&text, watcher->tag);
	buf_add_char(&text, ' ');
	buf_add_str(&text, statement->sql);
	r = buf_ok(&text) ? db_script(db, buf_str(&text), err) : err_memory(err);
	expect(watcher, NULL);
	return r;
}

bool migrate_watcher_stopped(struct migrate_watcher *watcher)
{
	return atomic_load(&watcher->stopped);
}

bool migrate_watcher_pause(struct migrate_watcher *watcher, int64_t ms)
{
	if (!migrate_watcher_stopped(watcher))
		(void)wake_wait(&watcher->stopping, ms);
	return !migrate_watcher_stopped(watcher);
}
