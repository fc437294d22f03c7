/* See jobs.h. Which kind of job ran last decides whether claims or maintenance come next (claimer_run). */
#include "dispatch/table/jobs.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "dispatch/table/table.h"
#include "report/meters.h"

#define DB_BACKOFF_MS     100
#define DB_BACKOFF_MAX_MS 5000
#define DB_BUSY_MAX_MS    1000
#define HALVINGS_MOST     12
#define DOUBLE_AFTER      20 /* claims in time, after which the row limit doubles again */

struct job *jobs_new(struct table *table, enum job_kind kind)
{
	struct job *job = job_new(kind);

	if (job == NULL)
		return NULL;
	job->request.instance = table->context->options.instance;
	if (routing_copy(&job->routing, table->order->routing, NULL) == 0) {
		job->request.routing = job->routing;
		return job;
	}
	job_free(job);
	return NULL;
}

void jobs_give(struct table *table, struct job *job)
{
	table->database.under_way[job->kind] = true;
	if (job->kind != JOB_SETTLE && job->kind != JOB_RAISE && job->kind != JOB_HANDLERS)
		table->database.last_was_leased = job->kind == JOB_LEASED;
	if (job->kind != JOB_RESCUE && job->kind != JOB_HOLDS && job->kind != JOB_HANDLERS &&
		job->kind != JOB_LEASED && job->kind != JOB_LOOK)
		table->claimer.last_was_claim = job->kind == JOB_DUE || job->kind == JOB_LANES;
	worker_pool_give(table->pool, job);
}

/* A claim or a sweep that ran into statement_timeout halves the row limit of the next one. After many claims in time
 * the limit doubles again. */
static void adapt_rows(struct database_state *database, const struct job *job)
{
	if (job->result != 0 && db_error_kind(&job->err) == PG_ERROR_SLOW) {
		database->halvings += database->halvings < HALVINGS_MOST ? 1 : 0;
		database->in_time = 0;
	} else if (job->result == 0 && job->kind != JOB_SWEEP && job->claim.claimed.count > 0 &&
		   database->halvings > 0 && ++database->in_time == DOUBLE_AFTER) {
		database->halvings--;
		database->in_time = 0;
	}
}

void jobs_ended(struct table *table, const struct job *job)
{
	table->database.under_way[job->kind] = false;
	if (job->kind == JOB_DUE || job->kind == JOB_LANES || job->kind == JOB_SWEEP)
		adapt_rows(&table->database, job);
}

/* The log line of each class, named as those of ingest. */
static const struct {
	const char *event;
	const char *next;
} lines[PG_ERROR_KINDS] = {
#define WHEN_BACK "verdicts are kept and settled when the database answers again"
#define BY_ROW                                                                                     \
	"verdicts are kept and retried; a row that is refused while others are accepted is set "   \
	"aside"
	[PG_ERROR_LOST] = { "dispatch_database_lost", WHEN_BACK },
	[PG_ERROR_BUSY] = { "dispatch_database_busy", WHEN_BACK },
	[PG_ERROR_SLOW] = { "dispatch_database_busy", WHEN_BACK },
	[PG_ERROR_RESOURCES] = { "dispatch_database_full", WHEN_BACK },
	[PG_ERROR_READ_ONLY] = { "dispatch_database_read_only", WHEN_BACK },
	[PG_ERROR_STALE] = { "dispatch_database_busy", WHEN_BACK },
	[PG_ERROR_REFUSED] = { "dispatch_database_refuses", BY_ROW },
	[PG_ERROR_DATA] = { "dispatch_database_refuses", BY_ROW },
	[PG_ERROR_OTHER] = { "dispatch_database_refuses", BY_ROW },
};

/* The jobs that were given before the hold fail, too. They are not another attempt, so that the first hold is short with
 * any number of workers. */
static void hold(struct database_state *database, const struct job *job, bool busy, int64_t now_ms)
{
	if (job->given_ms < database->hold_until_ms)
		return;
	database->hold_until_ms =
		now_ms + 1 +
		backoff_delay_ms(DB_BACKOFF_MS, busy ? DB_BUSY_MAX_MS : DB_BACKOFF_MAX_MS,
			database->holds++, random_u64());
}

static void note_fault(struct table *table, const struct job *job)
{
	struct database_state *database = &table->database;
	enum pg_error_class class = db_error_kind(&job->err);
	bool busy = class == PG_ERROR_BUSY || class == PG_ERROR_SLOW || class == PG_ERROR_STALE;
	const int64_t now_ms = clock_now_ms();
	int64_t left_ms;

	hold(database, job, busy, now_ms);
	left_ms = database->hold_until_ms - now_ms;
	metric_add(metrics_get(table->context->options.metrics, METER_PG_ERRORS,
			   db_error_class(&job->err), NULL),
		1);
	database->connection_was_lost |= class == PG_ERROR_LOST;
	if (outage_log_failed(&database->outage, class, now_ms))
		log_warn(lines[class].event, LOG_STR("error", job->err.text),
			LOG_STR("sqlstate", job->err.state),
			LOG_STR("class", pg_error_class_name(class)),
			LOG_INT("retry_in_ms", left_ms > 0 ? left_ms : 0),
			LOG_STR("next", lines[class].next), LOG_OUTAGE(&database->outage, now_ms));
}

static void note_success(struct table *table)
{
	struct database_state *database = &table->database;
	struct outage_log ended;

	if (outage_log_ended(&database->outage, &ended))
		log_info("dispatch_database_back", LOG_INT("failed_jobs", ended.failures),
			LOG_OUTAGE_ENDED(&ended, clock_now_ms()));
	if (database->connection_was_lost)
		metric_add(metrics_get(table->context->options.metrics, METER_PG_RECONNECTS, NULL,
				   NULL),
			1);
	database->connection_was_lost = false;
	database->holds = 0;
}

struct job *jobs_take(struct table *table)
{
	struct job *job = worker_pool_take(table->pool);

	if (job == NULL)
		return NULL;
	if (job->result != 0)
		note_fault(table, job);
	else
		note_success(table);
	return job;
}

void jobs_drop(struct table *table, struct job *job)
{
	if (job != NULL && (job->kind == JOB_DUE || job->kind == JOB_LANES))
		admission_release(table->context->options.admission, job->claim.reserved, 0);
	job_free(job);
}

void jobs_add_stream(struct job *job, const struct admission_stream *stream, size_t index)
{
	struct job_streams *streams = &job->streams;

	streams->items[streams->count] = (struct stream_ref){ stream->topic, stream->partition,
		stream->consumer, stream->ordering };
	streams->indexes[streams->count] = index;
	streams->versions[streams->count] = stream->version;
	streams->count++;
}

bool jobs_room(struct job *job, size_t count)
{
	struct job_streams *streams = &job->streams;

	streams->items = calloc(count, sizeof(*streams->items));
	streams->indexes = calloc(count, sizeof(*streams->indexes));
	streams->versions = calloc(count, sizeof(*streams->versions));
	return streams->items != NULL && streams->indexes != NULL && streams->versions != NULL;
}

/* The list starts with another stream each time. A claim has a row limit, so the backlog of the first one
 * would otherwise delay the others. */
bool jobs_add_own(struct table *table, struct job *job, bool all)
{
	size_t count = admission_count(table->context->options.admission);
	size_t first = count == 0 ? 0 : table->database.rotation++ % count;

	if (count == 0 || !jobs_room(job, count))
		return false;
	for (size_t i = 0; i < count; i++) {
		size_t index = (first + i) % count;
		struct admission_stream stream =
			admission_get(table->context->options.admission, index);

		if (stream.assigned && (all || jobs_may_claim_of(table, &stream, index)))
			jobs_add_stream(job, &stream, index);
	}
	return all || job->streams.count > 0;
}

/* With `ordering: partition` the whole stream is one lane. Its next run is claimed when memory holds none of it. A
 * paused stream is not claimed.
 * Without an open handler of the consumer a claim only parks what is due. That ends an overflow, and is of no other use. */
bool jobs_may_claim_of(
	const struct table *table, const struct admission_stream *stream, size_t index)
{
	if (stream->paused)
		return false;
	if (!stream->overflow && !routing_attends(table->order->routing, stream->consumer))
		return false;
	return stream->ordering != ORDERING_PARTITION ||
	       lanes_is_free(&table->order->lanes, index, 0);
}

size_t jobs_rows(const struct table *table)
{
	size_t batch = (size_t)table->context->options.config->worker.claim_batch;
	size_t part = batch >> table->database.halvings;

	return part > 0 ? part : 1;
}

bool jobs_may_give(const struct table *table)
{
	size_t kept = worker_pool_size(table->pool) > 1 && table->settler.jobs == 0 ? 1 : 0;

	return worker_pool_idle(table->pool) > kept;
}

bool jobs_are_on_hold(const struct table *table, int64_t now_ms)
{
	return now_ms < table->database.hold_until_ms;
}
