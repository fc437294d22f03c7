/*
 * Database jobs that claim nothing:
 * - The sweep finds parked rows that can be claimed now and that memory does not know about (rule R13). Memory
 *   is only a copy, so the sweep is what guarantees that no parked row is forgotten.
 * - The gauges count what waits in the table.
 * - The look says whether the periodic reads would find something: the search for due rows, the exchange of handlers and, in
 *   ingest, the reads of consumers, own partitions and orphans, and whether another instance runs retention. A sidecar that has nothing to do makes this one read
 *   instead of them. They take place as if there was no look when there was none for a while.
 * - The rescue gives back the rows of a claim whose answer was lost (rule R3).
 * - The check of held rows finds out whether other instances still hold them (key_holds.h).
 */
#include "dispatch/table/maintenance_jobs.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/table/table.h"
#include "report/meters.h"

#define SWEEP_EVERY_MS       3000
#define SWEEP_AGAIN_MS       100  /* while there are more rows to release than one sweep releases */
#define SWEEP_SPILL_MOST     2000 /* with this many claimable lanes, no sweep looks for more */
#define GAUGES_CAP           1000000
/* The gauges count the table this often, ... */
#define GAUGES_EVERY_MS      2000
/* ... this often while the counts do not change, ... */
#define GAUGES_UNCHANGED_MS  10000
/* ... and the expensive ones (dead messages, oldest snapshot of the server) this often. */
#define SLOW_GAUGES_EVERY_MS 10000
#define GAUGES_PACE          50 /* counting takes at most a fiftieth of the time */

/* Or a third of a lease, if that is shorter. */
#define LOOK_EVERY_MS        5000
#define A_THIRD              3
#define LOOKS_RECENT         2 /* a look is recent for this number of intervals */

#define COUNT(array)         (sizeof(array) / sizeof((array)[0]))

/* Finds the next dirty stream to sweep. False: the round is complete. */
static bool next_dirty(struct table *table, struct admission_stream *out, size_t *index)
{
	struct sweeps *sweeps = &table->sweeps;
	size_t count = admission_count(table->context->options.admission);

	for (; sweeps->next < count; sweeps->next++) {
		*index = sweeps->next;
		*out = admission_get(table->context->options.admission, *index);
		if (out->assigned && out->dirty && !out->paused)
			return true;
		sweeps->page = false;
	}
	return false;
}

static void sweep(struct table *table, int64_t now_ms)
{
	struct sweeps *sweeps = &table->sweeps;
	struct admission_stream stream;
	struct job *job;
	size_t index = 0;

	/* Before the known handlers are read, the routing is not complete. A sweep could release a row that waits for a
	 * handler that is away. */
	if (!table->order->routing_complete || table->database.under_way[JOB_SWEEP] ||
		now_ms < sweeps->at_ms || table->order->lanes.claimable_count > SWEEP_SPILL_MOST)
		return;
	if (!next_dirty(table, &stream, &index)) {
		sweeps->next = 0;
		sweeps->at_ms = now_ms + (sweeps->again ? SWEEP_AGAIN_MS : SWEEP_EVERY_MS);
		sweeps->again = false;
		return;
	}
	job = jobs_new(table, JOB_SWEEP);
	if (job == NULL || !jobs_room(job, 1)) {
		jobs_drop(table, job);
		return;
	}
	jobs_add_stream(job, &stream, index);
	job->sweep.first_page = !sweeps->page;
	job->sweep.after = sweeps->after;
	job->request.max_rows = jobs_rows(table);
	jobs_give(table, job);
}

static void sweep_finished(struct table *table, const struct job *job)
{
	struct sweeps *sweeps = &table->sweeps;

	if (!job->sweep.waiting)
		admission_clean(table->context->options.admission, job->streams.indexes[0],
			job->streams.versions[0]);
	for (size_t i = 0; i < job->sweep.page.count; i++)
		(void)lanes_parked(&table->order->lanes, job->streams.indexes[0],
			job->sweep.page.hashes[i], -1, NULL);
	if (job->sweep.released > 0)
		table->claimer.poll_at_ms = 0;
	if (job->sweep.released >= (int64_t)job->request.max_rows)
		sweeps->again = true;
	sweeps->page = job->sweep.page.more;
	sweeps->after = job->sweep.page.last;
	if (!job->sweep.page.more)
		sweeps->next++;
}

void maintenance_rescue(struct table *table)
{
	struct claimer *claimer = &table->claimer;
	struct entry *entry;
	struct job *job;

	if (!claimer->rescue || claimer->claims_under_way > 0 ||
		table->database.under_way[JOB_RESCUE])
		return;
	job = jobs_new(table, JOB_RESCUE);
	if (job == NULL)
		return;
	job->rescue.rows = calloc(table->order->entry_count + 1, sizeof(*job->rescue.rows));
	if (job->rescue.rows == NULL) {
		jobs_drop(table, job);
		return;
	}
	/* A row that was born claimed has delivery count 1 and is not among the rows that this rescue reads. */
	for (entry = table->order->entries; entry != NULL; entry = entry->hh.next) {
		if (entry->message->delivery_count > 1)
			job->rescue.rows[job->rescue.count++] =
				(struct held_claim){ entry->message->seq,
					entry->message->delivery_count };
	}
	job->request.number = open_claims_low(&table->order->open_claims);
	jobs_give(table, job);
}

static void rescue_finished(struct table *table, const struct job *job)
{
	table->claimer.rescue = false;
	table->claimer.poll_at_ms = 0;
	open_claims_resolved(&table->order->open_claims);
	log_info("claims_rescued", LOG_INT("rows", job->rescue.rescued),
		LOG_STR("why", "the answer of the database to a claim was lost"));
	metric_add(metrics_get(table->context->options.metrics, METER_RESCUED, NULL, NULL),
		job->rescue.rescued);
}

/* A consumer that is not known any more keeps its streams, but is left out. False: no memory. */
static bool add_known(struct admission *admission, struct backlogs *known)
{
	size_t count = admission_count(admission);

	for (size_t i = 0; i < count; i++) {
		const char *consumer = admission_get(admission, i).consumer;

		if (backlogs_find(known, consumer) == NULL &&
			admission_known(admission, consumer) != NULL &&
			backlogs_add(known, consumer) == NULL)
			return false;
	}
	return true;
}

/* Also without partitions: nothing waits in those that were revoked. */
static void gauge(struct table *table, int64_t now_ms)
{
	struct gauges_schedule *gauges = &table->gauges;
	int64_t placed;
	struct job *job;

	if (table->database.under_way[JOB_GAUGES] || now_ms < gauges->at_ms)
		return;
	placed = admission_placed(table->context->options.admission);
	if (now_ms < gauges->unchanged_until_ms && placed == gauges->placed)
		return;
	job = jobs_new(table, JOB_GAUGES);
	gauges->at_ms = now_ms + GAUGES_EVERY_MS;
	if (job == NULL || !jobs_add_own(table, job, true) ||
		!add_known(table->context->options.admission, &job->gauges.counts.known)) {
		jobs_drop(table, job);
		return;
	}
	job->gauges.cap = table->context->options.config->ingest.max_pending + 1;
	if (job->gauges.cap > GAUGES_CAP)
		job->gauges.cap = GAUGES_CAP;
	job->gauges.placed = placed;
	job->gauges.expensive = now_ms >= gauges->slow_at_ms;
	if (job->gauges.expensive)
		gauges->slow_at_ms = now_ms + SLOW_GAUGES_EVERY_MS;
	jobs_give(table, job);
}

static int64_t look_every_ms(const struct table *table)
{
	int64_t third_ms = table->context->options.config->worker.lease / A_THIRD;

	return third_ms < LOOK_EVERY_MS ? third_ms : LOOK_EVERY_MS;
}

bool looks_are_recent(const struct table *table, int64_t now_ms)
{
	return table->looks.given_ms != 0 &&
	       now_ms - table->looks.given_ms < LOOKS_RECENT * look_every_ms(table);
}

static void look(struct table *table, int64_t now_ms)
{
	const struct config *config = table->context->options.config;
	struct job *job;

	if (table->database.under_way[JOB_LOOK] || now_ms < table->looks.at_ms)
		return;
	table->looks.at_ms = now_ms + look_every_ms(table);
	job = jobs_new(table, JOB_LOOK);
	if (job == NULL)
		return;
	(void)jobs_add_own(table, job, false); /* without memory for them: no stream */
	job->look.lease_ms = config->worker.lease;
	job->look.memory_ms = config->inbox.handler_memory;
	jobs_give(table, job);
}

/* The time until a row is due counts from a moment before now, so the search is a little late and finds the row. With a longer
 * worker.poll, the user wants fewer searches. */
static void look_finished(struct table *table, const struct job *job)
{
	const struct table_look *found = &job->look.found;
	struct looks *looks = &table->looks;
	int64_t recent_ms = LOOKS_RECENT * look_every_ms(table);
	int64_t now_ms = clock_now_ms();

	looks->given_ms = job->given_ms;
	looks->due_ms = found->due_in_ms == INT64_MAX ? INT64_MAX : now_ms + found->due_in_ms;
	looks->handlers_version = found->handlers_version;
	if (looks->due_ms < table->claimer.poll_at_ms &&
		table->context->options.config->worker.poll <= LOOK_EVERY_MS)
		table->claimer.poll_at_ms = looks->due_ms;
	atomic_store(&table->context->options.health->retained_elsewhere_ms,
		found->retained_elsewhere ? now_ms + recent_ms : 0);
	admission_set_look(table->context->options.admission,
		(struct admission_look){
			now_ms, recent_ms, found->consumers_version, found->orphans });
}

static bool is_listed(const char *const values[METRIC_LABELS], const void *backlogs)
{
	return backlogs_find(backlogs, values[0]) != NULL;
}

static void show_known(struct metrics *metrics, const struct backlogs *known)
{
	static const enum meter shown[] = { METER_WAITING, METER_UNROUTED, METER_OLDEST_WAITING };

	for (size_t i = 0; i < known->count; i++) {
		const struct backlog *backlog = &known->items[i];
		const double values[] = { (double)backlog->waiting, (double)backlog->unrouted,
			(double)backlog->oldest_due_ms / 1000.0 };

		for (size_t k = 0; k < COUNT(shown); k++)
			metric_set(
				metrics_get(metrics, shown[k], backlog->consumer, NULL), values[k]);
	}
	for (size_t k = 0; k < COUNT(shown); k++)
		metrics_keep(metrics, shown[k], is_listed, known);
}

/* The log has them when they become more: at the start, and after the end of a consumer. */
static void show_for_nobody(struct table *table, const struct backlogs *for_nobody)
{
	struct metrics *metrics = table->context->options.metrics;
	bool more = for_nobody->count > table->gauges.for_nobody;
	int64_t rows = 0;

	for (size_t i = 0; i < for_nobody->count; i++) {
		const struct backlog *backlog = &for_nobody->items[i];

		rows += backlog->waiting;
		metric_set(metrics_get(metrics, METER_WAITING_FOR_NOBODY, backlog->consumer, NULL),
			(double)backlog->waiting);
		if (more)
			log_warn("rows_wait_for_nobody", LOG_STR("consumer", backlog->consumer),
				LOG_INT("rows", backlog->waiting),
				LOG_STR("why", "no sidecar lists the consumer any more"),
				LOG_STR("next",
					"list the consumer again, or make its messages dead "
					"with `inboxd discard --consumer`"));
	}
	metrics_keep(metrics, METER_WAITING_FOR_NOBODY, is_listed, for_nobody);
	atomic_store(&table->context->options.health->for_nobody, rows);
	table->gauges.for_nobody = for_nobody->count;
}

static bool is_lapsed(const struct table *table, const struct handler_queue *queue)
{
	return queue != NULL && queue->connections > 0 &&
	       admission_known(table->context->options.admission, queue->id.consumer) == NULL;
}

static bool is_lapsed_series(const char *const values[METRIC_LABELS], const void *table)
{
	const struct order *order = ((const struct table *)table)->order;

	return is_lapsed(table,
		handler_queues_find(&order->queues, (struct handler_id){ values[1], values[0] }));
}

/* Reports connected handlers of consumers for which nothing is stored any more. They are logged only when their number
 * grows. */
static void show_lapsed(struct table *table)
{
	const struct dispatch_options *options = &table->context->options;
	struct handler_queue *queue;
	struct handler_queue *next;
	int64_t count = 0;

	HASH_ITER (hh, table->order->queues.by_name, queue, next) {
		if (!is_lapsed(table, queue))
			continue;
		metric_set(metrics_get(options->metrics, METER_HANDLERS_LAPSED, queue->id.name,
				   queue->id.consumer),
			(double)queue->connections);
		if (++count > atomic_load(&options->health->lapsed))
			log_error("handler_lapsed", LOG_STR("handler", queue->id.name),
				LOG_STR("consumer", queue->id.consumer),
				LOG_STR("why", "the handler is connected, and no sidecar lists its "
					       "consumer any more"),
				LOG_STR("next",
					"the handler gets no new message: list the consumer, "
					"rename it "
					"with `inboxd consumers rename`, or stop the handler"));
	}
	metrics_keep(options->metrics, METER_HANDLERS_LAPSED, is_lapsed_series, table);
	atomic_store(&options->health->lapsed, count);
}

static void gauges_finished(struct table *table, const struct job *job)
{
	struct metrics *metrics = table->context->options.metrics;
	struct gauges_schedule *schedule = &table->gauges;
	const struct gauges *gauges = &job->gauges.counts;
	int64_t pause = job->took_us * GAUGES_PACE / 1000;
	int64_t unrouted = 0;
	int64_t sum = 0;
	bool unchanged;

	show_known(metrics, &gauges->known);
	if (job->gauges.expensive) {
		show_for_nobody(table, &gauges->for_nobody);
		show_lapsed(table);
		metric_set(metrics_get(metrics, METER_DEAD, NULL, NULL), (double)gauges->dead);
		metric_set(metrics_get(metrics, METER_OLDEST_XMIN, NULL, NULL),
			(double)gauges->snapshot_ms / 1000.0);
		metric_set(metrics_get(metrics, METER_OUTBOX_UNATTENDED, NULL, NULL),
			(double)gauges->unattended);
	}
	/* Rows for nobody are left out: they must not keep ingest from storing. */
	for (size_t i = 0; i < gauges->known.count; i++) {
		unrouted += gauges->known.items[i].unrouted;
		sum += gauges->known.items[i].waiting + gauges->known.items[i].unrouted +
		       gauges->known.items[i].held;
	}
	atomic_store(&table->context->options.health->unrouted, unrouted);
	/* If ingest placed nothing and the same number of rows waits, the next count is made later. */
	unchanged = sum == schedule->sum && job->gauges.placed == schedule->placed;
	admission_set_waiting(table->context->options.admission, sum, job->gauges.placed);
	schedule->sum = sum;
	schedule->placed = job->gauges.placed;
	schedule->unchanged_until_ms = unchanged ? clock_now_ms() + GAUGES_UNCHANGED_MS : 0;
	if (pause > GAUGES_EVERY_MS)
		schedule->at_ms = clock_now_ms() + pause;
}

void maintenance_check_key_holds(struct table *table, int64_t now_ms)
{
	struct job *job;

	if (table->database.under_way[JOB_HOLDS] || table->order->key_holds.count == 0)
		return;
	job = job_new(JOB_HOLDS);
	if (job == NULL)
		return;
	job->request.instance = table->context->options.instance;
	job->holds.revocations = table->order->revocations;
	job->holds.count = key_holds_to_check(table->order, now_ms, &job->holds.seqs);
	job->holds.states =
		job->holds.count == 0 ? NULL : calloc(job->holds.count, sizeof(*job->holds.states));
	if (job->holds.states == NULL)
		job_free(job);
	else
		jobs_give(table, job);
}

static void key_holds_finished(struct table *table, const struct job *job)
{
	const struct other_claims_rows rows = { job->holds.seqs, job->holds.states,
		job->holds.count };

	/* A partition was revoked while the job ran. It may be assigned again by now, and another instance may have
	 * claimed the rows in between. This result is too old; the next check reads them again. */
	if (job->holds.revocations != table->order->revocations)
		return;
	if (key_holds_checked(table->order, &rows))
		table->claimer.poll_at_ms = 0;
}

void maintenance_run(struct table *table, int64_t now_ms)
{
	if (jobs_may_give(table))
		look(table, now_ms);
	if (jobs_may_give(table))
		sweep(table, now_ms);
	if (jobs_may_give(table))
		gauge(table, now_ms);
}

static void (*const finishers[JOB_KINDS])(struct table *table, const struct job *job) = {
	[JOB_SWEEP] = sweep_finished,
	[JOB_RESCUE] = rescue_finished,
	[JOB_GAUGES] = gauges_finished,
	[JOB_HOLDS] = key_holds_finished,
	[JOB_LOOK] = look_finished,
};

/* A job that failed is made again later. A row that PostgreSQL refuses stops the sweep of its stream only. */
void maintenance_take(struct table *table, const struct job *job)
{
	if (job->result == 0) {
		finishers[job->kind](table, job);
	} else if (job->kind == JOB_SWEEP && db_error_may_be_row(&job->err)) {
		table->sweeps.page = false;
		table->sweeps.next++;
	}
	context_request_round(table->context);
}
