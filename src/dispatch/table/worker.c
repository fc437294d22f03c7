/* See worker.h. A table with one function for each kind of job. Each job opens the connection first if it is closed, so
 * the first job after an outage or a rest reconnects.
 *
 * Of the idle workers, the first one gets the job, so that an idle sidecar uses one connection. The others connect when
 * several jobs run at a time, and rest after a time without a job.
 *
 * In the pool that listens, the connection of the first worker listens for the notification inboxd_replay. It only shortens
 * the wait: if a notification is lost, or a connection pooler does not forward it, the next look finds the row (rule R19).
 */
#include "dispatch/table/worker.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/threads/thread.h"
#include "base/time/clock.h"

#define QUEUE_WAIT_MS        1000
#define LISTEN               "LISTEN inboxd_replay"
#define UNLISTEN             "UNLISTEN inboxd_replay"
/* Each notification causes a search. With more of them than this in a second, the searches that take place anyway are
 * enough. */
#define NOTICES_MOST         1000
#define NOTICES_IN_MS        1000
#define FLOOD_PAUSE_MS       60000
/* Some poolers end the connection of a client that listens. */
#define LISTEN_LOST_MOST     3
#define LISTEN_PAUSE_MS      60000
#define LISTEN_PAUSE_DOUBLES 6

/* Of the thread of the listener. */
struct listening {
	bool on; /* LISTEN was executed on this connection */
	int64_t pause_until_ms;
	unsigned lost;  /* connections at LISTEN, in a row */
	size_t notices; /* since `since_ms`, for a second at most */
	int64_t since_ms;
};

struct worker {
	struct worker_pool *pool;
	struct queue *todo; /* one place */
	struct wake wake;   /* poked when the queue gets a job or is closed */
	bool busy;          /* from the gift of a job until it is taken back; dispatch thread */
	struct db *db;
	struct listening listening;
	struct thread thread;
};

struct worker_pool {
	struct worker_options options;
	struct queue *done;
	atomic_bool noticed; /* see worker_pool_take_notice() */
	struct worker *workers;
	size_t busy; /* jobs given and not taken back */
};

struct job *job_new(enum job_kind kind)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job != NULL)
		job->kind = kind;
	return job;
}

void job_free(struct job *job)
{
	if (job == NULL)
		return;
	switch (job->kind) {
	case JOB_SETTLE:
	case JOB_RAISE:
		for (size_t i = 0; i < job->settle.count; i++)
			free(job->settle.rows[i].refusal);
		free(job->settle.rows);
		free(job->settle.entries);
		break;
	case JOB_DUE:
	case JOB_LANES:
		free(job->claim.since);
		free(job->claim.hashes);
		refused_seqs_fini(&job->claim.without);
		claimed_fini(&job->claim.claimed);
		break;
	case JOB_SWEEP:
		parked_page_fini(&job->sweep.page);
		break;
	case JOB_RESCUE:
		free(job->rescue.rows);
		break;
	case JOB_HOLDS:
		free(job->holds.seqs);
		free(job->holds.states);
		break;
	case JOB_HANDLERS:
		known_own_free(
			job->handlers.own, job->handlers.own == NULL ? 0 : job->handlers.count);
		known_fini(&job->handlers.known);
		break;
	case JOB_GAUGES:
		gauges_fini(&job->gauges.counts);
		break;
	case JOB_CALL:
	case JOB_CALLABLE:
		if (job->call.rows != NULL)
			sql_calls_clear(job->call.rows, job->call.count);
		free(job->call.rows);
		break;
	case JOB_LEASED:
		buf_fini(&job->leased.params);
		free(job->leased.reply);
		break;
	case JOB_LOOK:
	case JOB_KINDS:
		break;
	}
	free(job->streams.items);
	free(job->streams.indexes);
	free(job->streams.versions);
	routing_free(job->routing);
	free(job);
}

static int run_settle(struct db *db, struct job *job)
{
	int r;

	FAULT_POINT("before_settle");
	r = (job->settle.isolate ? settle_isolate : settle_run)(
		db, job->request.instance, job->settle.rows, job->settle.count, &job->err);
	FAULT_POINT("after_settle");
	return r == 0 && FAULT_ERROR("error_after_settle") ? FAULT_DATABASE : r;
}

static int run_raise(struct db *db, struct job *job)
{
	int r;

	FAULT_POINT("before_raise");
	r = settle_raise(db, job->request.instance, job->settle.rows, job->settle.count, &job->err);
	FAULT_POINT("after_raise");
	return r;
}

static int run_due(struct db *db, struct job *job)
{
	const struct claim_streams streams = { job->streams.items, job->streams.count };
	int r = 0;

	if (job->claim.isolate)
		r = claims_probe_due(db, &job->request, &streams, &job->claim.without, &job->err);
	if (r != 0)
		return r;
	return claims_due(db, &job->request, &streams, &job->claim.claimed, &job->err);
}

static int run_lanes(struct db *db, struct job *job)
{
	const struct claim_lanes lanes = { job->streams.items, job->claim.hashes,
		job->streams.count };
	int r = 0;

	if (job->claim.isolate)
		r = claims_probe_lanes(db, &job->request, &lanes, &job->claim.without, &job->err);
	if (r != 0)
		return r;
	return claims_lanes(db, &job->request, &lanes, &job->claim.claimed, &job->err);
}

/* First a cheap check whether the stream has any waiting row. Then parked rows that only waited for a handler are
 * released, and the keys with parked rows are listed, so that lanes continue with them. Without an open handler
 * of the consumer no row can go on. */
static int run_sweep(struct db *db, struct job *job)
{
	const struct parked_position position = {
		.stream = job->streams.items[0],
		.after = job->sweep.first_page ? NULL : &job->sweep.after,
	};
	const struct claim_streams streams = { job->streams.items, 1 };
	int r = waiting_rows_any(db, &streams, &job->sweep.waiting, &job->err);

	/* With `ordering: partition` a claim takes parked rows as well, so there is nothing to release. */
	if (r != 0 || !job->sweep.waiting || position.stream.ordering == ORDERING_PARTITION ||
		!routing_attends(job->request.routing, position.stream.consumer))
		return r;
	FAULT_POINT("before_unpark");
	r = waiting_rows_release(
		db, &job->request, job->streams.items, &job->sweep.released, &job->err);
	if (r != 0 || position.stream.ordering != ORDERING_KEY)
		return r;
	return waiting_rows_find_parked(db, &job->request, &position, &job->sweep.page, &job->err);
}

static int run_rescue(struct db *db, struct job *job)
{
	const struct claims_held held = {
		.instance = job->request.instance,
		.low_claim = job->request.number,
		.rows = job->rescue.rows,
		.count = job->rescue.count,
	};
	int r;

	FAULT_POINT("before_rescue_of_own");
	r = claims_rescue(db, &held, &job->rescue.rescued, &job->err);
	FAULT_POINT("after_rescue_of_own");
	return r;
}

static int run_gauges(struct db *db, struct job *job)
{
	const struct gauges_request request = {
		.streams = { job->streams.items, job->streams.count },
		.routing = job->request.routing,
		.cap = job->gauges.cap,
		.expensive = job->gauges.expensive,
	};

	return waiting_rows_gauges(db, &request, &job->gauges.counts, &job->err);
}

static int run_holds(struct db *db, struct job *job)
{
	const struct other_claims_rows rows = { job->holds.seqs, job->holds.states,
		job->holds.count };

	int r = other_claims_look(db, job->request.instance, &rows, &job->err);

	FAULT_POINT("after_look_at_held");
	return r;
}

static int run_handlers(struct db *db, struct job *job)
{
	const struct known_request request = {
		.instance = job->request.instance,
		.memory_ms = job->handlers.memory_ms,
		.lease_ms = job->handlers.lease_ms,
		.own = job->handlers.own,
		.count = job->handlers.count,
		.consumers = job->handlers.consumers,
	};

	return known_exchange(db, &request, &job->handlers.known, &job->err);
}

static int run_look(struct db *db, struct job *job)
{
	const struct look_request request = {
		.instance = job->request.instance,
		.streams = { job->streams.items, job->streams.count },
		.lease_ms = job->look.lease_ms,
		.memory_ms = job->look.memory_ms,
	};

	return waiting_rows_look(db, &request, &job->look.found, &job->err);
}

static int run_call(struct db *db, struct job *job)
{
	const struct sql_calls calls = { job->request.instance, job->call.handler, job->call.rows,
		job->call.count };

	return sql_calls_run(db, &calls, &job->err);
}

static int run_callable(struct db *db, struct job *job)
{
	return sql_calls_check(db, job->call.handler, &job->err);
}

/* What concerns only this request is no fault of the database. */
static int run_leased(struct db *db, struct job *job)
{
	struct leased_job *leased = &job->leased;
	int r;

	r = leased_requests_call(db, leased->method,
		(struct bytes){ leased->params.data, leased->params.length }, &leased->reply,
		&job->err);
	if (r < 0)
		return r;
	leased->outcome = (enum leased_outcome)r;
	return 0;
}

static int (*const runners[JOB_KINDS])(struct db *db, struct job *job) = {
	[JOB_SETTLE] = run_settle,
	[JOB_RAISE] = run_raise,
	[JOB_DUE] = run_due,
	[JOB_LANES] = run_lanes,
	[JOB_SWEEP] = run_sweep,
	[JOB_RESCUE] = run_rescue,
	[JOB_GAUGES] = run_gauges,
	[JOB_HOLDS] = run_holds,
	[JOB_HANDLERS] = run_handlers,
	[JOB_LOOK] = run_look,
	[JOB_CALL] = run_call,
	[JOB_CALLABLE] = run_callable,
	[JOB_LEASED] = run_leased,
};

/* --- Notifications ----------------------------------------------------------------------------- */

static bool is_listener(const struct worker *worker)
{
	return worker->pool->options.listens && worker == worker->pool->workers;
}

/* Dispatch looks for what may have become due. */
static void notice(struct worker_pool *pool)
{
	atomic_store(&pool->noticed, true);
	wake_poke(pool->options.done_wake);
}

/* A connection was lost at LISTEN. If that were tried on each connection, the worker would never execute a job. */
static void give_up_listening(struct listening *listening, const struct err *err)
{
	unsigned more = listening->lost < LISTEN_LOST_MOST ? 0 : listening->lost - LISTEN_LOST_MOST;

	if (++listening->lost < LISTEN_LOST_MOST)
		return;
	more = more > LISTEN_PAUSE_DOUBLES ? LISTEN_PAUSE_DOUBLES : more;
	listening->pause_until_ms = clock_now_ms() + ((int64_t)LISTEN_PAUSE_MS << more);
	if (listening->lost == LISTEN_LOST_MOST)
		log_warn("notifications_unavailable", LOG_STR("error", err->text),
			LOG_INT("lost", listening->lost),
			LOG_STR("next", "replays and resumed topics are found by the periodic "
					"reads; allow LISTEN in the connection pooler, if there "
					"is one"));
}

/* Executes LISTEN on a new connection, and after a flood. What was committed before is looked for, since nobody has
 * listened. A refusal leaves the connection open, and the looks do the rest. */
static int listen_on(struct worker *worker, struct err *err)
{
	struct listening *listening = &worker->listening;
	struct err said = ERR_INIT;

	if (!is_listener(worker) || listening->on || clock_now_ms() < listening->pause_until_ms)
		return 0;
	if (db_script(worker->db, LISTEN, &said) != 0 && !db_is_open(worker->db)) {
		*err = said;
		give_up_listening(listening, err);
		return FAULT_DATABASE;
	}
	listening->lost = 0;
	listening->on = true;
	notice(worker->pool);
	return 0;
}

/* Any role of the database may send notifications. */
static void stop_flood(struct worker *worker, int64_t now_ms)
{
	struct listening *listening = &worker->listening;

	(void)db_script(worker->db, UNLISTEN, NULL);
	listening->on = false;
	listening->pause_until_ms = now_ms + FLOOD_PAUSE_MS;
	log_warn("notifications_ignored", LOG_INT("notifications", (int64_t)listening->notices),
		LOG_INT("within_ms", now_ms - listening->since_ms),
		LOG_INT("for_ms", FLOOD_PAUSE_MS),
		LOG_STR("next", "replays and resumed topics are found by the periodic reads; find "
				"out who calls pg_notify('inboxd_replay') so often"));
}

static void take_notices(struct worker *worker)
{
	struct listening *listening = &worker->listening;
	size_t count = db_take_notices(worker->db);
	int64_t now_ms = clock_now_ms();

	if (count == 0 || !listening->on)
		return;
	if (now_ms - listening->since_ms >= NOTICES_IN_MS) {
		listening->since_ms = now_ms;
		listening->notices = 0;
	}
	listening->notices += count;
	if (listening->notices > NOTICES_MOST)
		stop_flood(worker, now_ms);
	notice(worker->pool);
}

/* --- Threads ----------------------------------------------------------------------------------- */

static void execute(struct worker *worker, struct job *job)
{
	int64_t started = clock_now_us();

	if (!db_is_open(worker->db))
		worker->listening.on = false;
	job->result = db_open(worker->db, &job->err);
	if (job->result == 0)
		job->result = listen_on(worker, &job->err);
	if (job->result == 0)
		job->result = runners[job->kind](worker->db, job);
	job->took_us = clock_now_us() - started;
}

/* Waits for a job. On an idle connection, notifications and the end of the connection are noticed, too. A connection that
 * ends while it has no job is not needed, except that of the listener: a search opens it again, and LISTEN follows. */
static int next_job(struct worker *worker, void **item)
{
	int r;

	if (!db_is_open(worker->db))
		return queue_pop(worker->todo, item, QUEUE_WAIT_MS);
	r = queue_pop(worker->todo, item, 0);
	if (r != QUEUE_TIMEOUT)
		return r;
	if (db_await_notice(worker->db, &worker->wake, QUEUE_WAIT_MS, NULL) == 0)
		take_notices(worker);
	else if (is_listener(worker))
		notice(worker->pool);
	else
		db_rest(worker->db);
	return queue_pop(worker->todo, item, 0);
}

static void work(void *arg)
{
	struct worker *worker = arg;
	struct worker_pool *pool = worker->pool;
	void *item = NULL;
	int r;

	while ((r = next_job(worker, &item)) != QUEUE_CLOSED) {
		if (r == QUEUE_TIMEOUT) {
			if (!is_listener(worker))
				db_rest_unused(worker->db);
			continue;
		}
		execute(worker, item);
		/* The queue has one place for each worker, so it is never full. */
		(void)queue_push(pool->done, item, QUEUE_WAIT_MS);
		wake_poke(pool->options.done_wake);
		take_notices(worker);
	}
	db_close(worker->db);
}

static int start_worker(struct worker_pool *pool, struct worker *worker, struct err *err)
{
	int r;

	r = queue_new(&worker->todo, 1, err);
	if (r == 0)
		r = wake_init(&worker->wake, err);
	if (r == 0)
		r = db_new(&worker->db, &pool->options.db, err);
	if (r < 0)
		return r;
	r = thread_init(&worker->thread, err);
	thread_watch(&worker->thread);
	return r != 0 ? r : thread_start(&worker->thread, "worker", work, worker, err);
}

int worker_pool_new(struct worker_pool **out, const struct worker_options *options, struct err *err)
{
	struct worker_pool *pool = calloc(1, sizeof(*pool));
	int r;

	if (pool == NULL)
		return err_memory(err);
	pool->options = *options;
	pool->workers = calloc(options->connections, sizeof(*pool->workers));
	if (pool->workers == NULL) {
		free(pool);
		return err_memory(err);
	}
	for (size_t i = 0; i < options->connections; i++)
		pool->workers[i] =
			(struct worker){ .pool = pool, .wake = WAKE_INIT, .thread = THREAD_INIT };
	r = queue_new(&pool->done, options->connections, err);
	for (size_t i = 0; r == 0 && i < options->connections; i++)
		r = start_worker(pool, &pool->workers[i], err);
	if (r != 0) {
		worker_pool_free(pool);
		return r;
	}
	*out = pool;
	return 0;
}

static void free_jobs(struct queue *queue)
{
	void *item = NULL;

	while (queue != NULL && queue_pop(queue, &item, 0) == 0)
		job_free(item);
	queue_free(queue);
}

void worker_pool_free(struct worker_pool *pool)
{
	if (pool == NULL)
		return;
	for (size_t i = 0; i < pool->options.connections; i++) {
		struct worker *worker = &pool->workers[i];

		if (!worker->thread.started)
			continue;
		queue_close(worker->todo);
		wake_poke(&worker->wake);
		db_interrupt(worker->db);
	}
	for (size_t i = 0; i < pool->options.connections; i++) {
		struct worker *worker = &pool->workers[i];

		thread_join(&worker->thread);
		thread_fini(&worker->thread);
		db_free(worker->db);
		wake_fini(&worker->wake);
		free_jobs(worker->todo);
	}
	free_jobs(pool->done);
	free(pool->workers);
	free(pool);
}

size_t worker_pool_idle(const struct worker_pool *pool)
{
	return pool->options.connections - pool->busy;
}

size_t worker_pool_busy(const struct worker_pool *pool)
{
	return pool->busy;
}

size_t worker_pool_size(const struct worker_pool *pool)
{
	return pool->options.connections;
}

void worker_pool_give(struct worker_pool *pool, struct job *job)
{
	struct worker *worker = pool->workers;

	while (worker->busy)
		worker++; /* one of them is idle */
	worker->busy = true;
	pool->busy++;
	job->worker = worker;
	job->given_ms = clock_now_ms();
	/* Never full: an idle worker has no job. */
	(void)queue_push(worker->todo, job, QUEUE_WAIT_MS);
	wake_poke(&worker->wake);
}

struct job *worker_pool_take(struct worker_pool *pool)
{
	void *item = NULL;
	struct job *job;

	if (queue_pop(pool->done, &item, 0) != 0)
		return NULL;
	job = item;
	job->worker->busy = false;
	pool->busy--;
	return job;
}

bool worker_pool_take_notice(struct worker_pool *pool)
{
	return atomic_exchange(&pool->noticed, false);
}
