/*
 * Writes verdicts to the table. An idle worker gets all verdicts that wait, up to a limit, as one transaction. So the
 * transactions grow with the load. settle_batching.c decides whether to wait for more verdicts.
 *
 * Promise (guarantee G6): a verdict is kept until the table has it or its claim is known to be lost. A database
 * that is down delays it only. A verdict whose row is locked by a handler's transaction is tried again soon. A
 * verdict whose row or events PostgreSQL refuses is set aside (refused_verdicts.h), so that the others are settled. A verdict
 * with a wrong event becomes a retry.
 *
 * The crash counts of suspects are raised by the same way: JOB_RAISE before the delivery, JOB_SETTLE after it.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/table/settle/settle_batching.h"
#include "dispatch/table/table.h"

#define BATCH_MOST      2000
/* A transaction with so many bytes of events takes no further verdict: its statement needs a multiple of them. */
#define EMIT_ENOUGH     ((size_t)4 * 1024 * 1024)
/* After this many failed tries, each row is tried in a savepoint of its own to find the one that fails. */
#define REFUSALS_MOST   3
/* Pause before the next try when a handler's transaction holds the lock of the row. */
#define LOCKED_WAIT_MS  200
/* LOCKED_WAIT_MS of a suspect. Each of its tries needs a connection without other messages. */
#define SUSPECT_WAIT_MS 1000

void settler_init(struct settler *settler)
{
	TAILQ_INIT(&settler->locked);
	TAILQ_INIT(&settler->refused);
	TAILQ_INIT(&settler->raise);
	rate_init(&settler->rate, SETTLE_BATCH_WAIT_MS);
}

void settler_add_raise(struct table *table, struct entry *entry)
{
	TAILQ_INSERT_TAIL(&table->settler.raise, entry, link);
	entry->raising = true;
	table->settler.raise_count++;
	context_request_round(table->context);
}

bool settler_is_empty(const struct table *table)
{
	const struct settler *settler = &table->settler;

	return table->order->verdicts.count == 0 && settler->raise_count == 0 &&
	       TAILQ_EMPTY(&settler->locked) && settler->under_way == 0 &&
	       !refused_verdicts_is_due(settler, clock_now_ms());
}

static struct job *job_of(struct table *table, enum job_kind kind, size_t count)
{
	struct job *job = job_new(kind);

	if (job == NULL)
		return NULL;
	job->request.instance = table->context->options.instance;
	job->settle.rows = calloc(count, sizeof(*job->settle.rows));
	job->settle.entries = calloc(count, sizeof(struct entry *));
	if (job->settle.rows != NULL && job->settle.entries != NULL)
		return job;
	job_free(job);
	return NULL;
}

static void add_entry(struct job *job, struct entry *entry)
{
	struct settle_row *row = &job->settle.rows[job->settle.count];

	job->settle.entries[job->settle.count++] = entry;
	*row = entry->verdict;
	row->seq = entry->message->seq;
	row->delivery_count = entry->message->delivery_count;
	row->lane = entry->in_lane.unsettled ? entry->lane->id : 0;
	row->follows = lanes_verdict_before(entry) != NULL;
	row->expects_completed = entry->end == END_SETTLED;
	row->repeated = entry->settling.repeated;
	entry->settling.job = job;
	/* Borrowed: a queue is not freed while it has entries. */
	row->handler = entry->queue == NULL ? NULL : entry->queue->id.name;
	job->settle.isolate |= entry->settling.refusals >= REFUSALS_MOST;
	job->settle.emit_bytes += row->emit.length;
}

static void start_job(struct table *table, struct job *job)
{
	table->settler.under_way += job->settle.count;
	table->settler.jobs++;
	worker_pool_give(table->pool, job);
}

/* Verdicts can arrive without a pause, and a failed transaction comes back at once. If the claimer found no idle
 * worker and none of the busy ones runs a job of it, one worker is left to the claimer. */
static bool may_give(const struct table *table)
{
	size_t claiming = worker_pool_busy(table->pool) - table->settler.jobs;
	size_t kept = table->claimer.needs_worker && claiming == 0 ? 1 : 0;

	return worker_pool_idle(table->pool) > kept;
}

/* Gives the verdicts that are set aside and due, each as a job of its own. */
static void give_refused(struct table *table, int64_t now_ms)
{
	struct settler *settler = &table->settler;
	struct entry *entry;
	struct job *job;

	while (may_give(table) && (entry = refused_verdicts_take_due(settler, now_ms)) != NULL) {
		job = job_of(table, JOB_SETTLE, 1);
		if (job == NULL) {
			refused_verdicts_put_back(settler, entry);
			return; /* no memory now; the next round tries again */
		}
		add_entry(job, entry);
		start_job(table, job);
	}
}

/* True when the verdict before it in its lane is not committed and not in this job either (rule R25). */
static bool must_wait(const struct entry *entry, const struct job *job)
{
	const struct entry *before = lanes_verdict_before(entry);

	return before != NULL && before->settling.job != job;
}

/* Gives up to BATCH_MOST entries of the list as one job. Verdicts that must wait are deferred. False: no memory now,
 * and the next round tries again. */
static bool give(struct table *table, enum job_kind kind, struct entry_list *list, size_t *length)
{
	size_t most = *length < BATCH_MOST ? *length : BATCH_MOST;
	struct job *job = job_of(table, kind, most);

	if (job == NULL)
		return false;
	for (; job->settle.count < most && job->settle.emit_bytes < EMIT_ENOUGH && *length != 0;
		--*length) {
		struct entry *entry = TAILQ_FIRST(list);

		TAILQ_REMOVE(list, entry, link);
		if (must_wait(entry, job))
			entry_defer(table->order, entry);
		else
			add_entry(job, entry);
	}
	if (job->settle.count > 0)
		start_job(table, job);
	else
		job_free(job);
	return true;
}

static void unlock_due(struct table *table, int64_t now_ms)
{
	struct entry_list *locked = &table->settler.locked;
	struct entry *entry;

	while ((entry = TAILQ_FIRST(locked)) != NULL && entry->settling.retry_at_ms <= now_ms) {
		TAILQ_REMOVE(locked, entry, link);
		TAILQ_INSERT_TAIL(&table->order->verdicts.entries, entry, link);
		table->order->verdicts.count++;
	}
}

static bool is_worth_a_transaction(struct table *table, int64_t now_ms)
{
	const struct order *order = table->order;
	const struct verdict_list *verdicts = &order->verdicts;
	size_t most = (size_t)table->context->options.config->inbox.max_in_flight;
	size_t ready = handler_queues_ready(&order->queues);
	size_t others = order->queues.in_flight[MESSAGES] + ready;
	const struct settle_batching batching = {
		.verdicts = verdicts->count,
		.in_flight = order->queues.in_flight[MESSAGES],
		.ready = ready,
		.behind = order->entry_count > others ? order->entry_count - others : 0,
		.held_up = table->settler.jobs == 0 && handler_queues_are_held_up(&order->queues),
		.stopping = verdicts->stopping,
		.most = most,
		.urgent = verdicts->urgent,
		.prompt = verdicts->prompt,
		.rate = &table->settler.rate,
		.since_ms = verdicts->since_ms,
	};

	if (settle_batching_is_due(&batching, now_ms) || context_is_stopping(table->context))
		return true;
	context_request_round_in(table->context, SETTLE_BATCH_WAIT_MS);
	return false;
}

void settler_run(struct table *table, int64_t now_ms)
{
	struct verdict_list *verdicts = &table->order->verdicts;

	rate_add(&table->settler.rate, now_ms, verdicts->added);
	verdicts->added = 0;
	unlock_due(table, now_ms);
	if (jobs_are_on_hold(table, now_ms))
		return;
	if (table->settler.raise_count > 0 && may_give(table))
		(void)give(table, JOB_RAISE, &table->settler.raise, &table->settler.raise_count);
	give_refused(table, now_ms);
	while (verdicts->count > 0 && may_give(table) && is_worth_a_transaction(table, now_ms)) {
		if (!give(table, JOB_SETTLE, &verdicts->entries, &verdicts->count))
			return;
		if (verdicts->count == 0) {
			verdicts->urgent = false;
			verdicts->prompt = false;
			verdicts->stopping = 0;
		}
	}
}

/* The table has the verdict, or the claim is lost. */
static void finish(struct table *table, struct entry *entry, enum settle_status status)
{
	refused_verdicts_end(table, entry);
	if (entry->verdict.outcome == SETTLE_DEAD && status != SETTLE_LOST)
		table->gauges.slow_at_ms = 0; /* the next gauges count the dead messages */
	entry_finish(table->order, entry, status);
}

/* The answer came too late to emit: the handler's own transaction has completed the message. */
static void report_dropped_events(struct table *table, const struct job *job, size_t i)
{
	const struct entry *entry = job->settle.entries[i];

	metric_add(table->settler.events_dropped, 1);
	log_warn("events_dropped", LOG_STR("event_id", entry->message->event_id),
		LOG_STR("handler", job->settle.rows[i].handler),
		LOG_STR("why", "inbox.complete() had completed the message before the answer"),
		LOG_STR("next", "the events of the answer are not stored; the handler must pass "
				"them to inbox.complete(claim, result, emit)"));
}

/* Why PostgreSQL refuses the row. */
static const struct err *refusal_of(const struct job *job, size_t i)
{
	static const struct err unknown = { .text = "out of memory for the text of PostgreSQL" };

	return job->settle.rows[i].refusal == NULL ? &unknown : job->settle.rows[i].refusal;
}

static void settled(struct table *table, const struct job *job, size_t i, enum settle_status status)
{
	struct entry *entry = job->settle.entries[i];

	switch (status) {
	case SETTLE_OPEN:
	case SETTLE_BEHIND:
		if (status == SETTLE_OPEN && db_error_may_be_row(&job->err))
			entry->settling.refusals += entry->settling.refusals < REFUSALS_MOST;
		else if (status == SETTLE_OPEN)
			entry->settling.repeated = true;
		TAILQ_INSERT_HEAD(&table->order->verdicts.entries, entry, link);
		table->order->verdicts.count++;
		break;
	case SETTLE_LOCKED:
		entry->settling.retry_at_ms = clock_now_ms() + LOCKED_WAIT_MS;
		TAILQ_INSERT_TAIL(&table->settler.locked, entry, link);
		entries_doubt_completions(table->order, entry);
		break;
	case SETTLE_REFUSED:
		refused_verdicts_add(table, entry, refusal_of(job, i));
		entries_doubt_completions(table->order, entry);
		break;
	case SETTLE_UNEMITTED:
		entry_refuse_events(table->order, entry, refusal_of(job, i)->text);
		break;
	case SETTLE_SETTLED:
	case SETTLE_COMPLETED:
	case SETTLE_LOST:
		if (job->settle.rows[i].events_dropped)
			report_dropped_events(table, job, i);
		finish(table, entry, status);
		break;
	}
}

/* The suspect cannot be delivered: another instance has its claim, or it was completed meanwhile. */
static void drop_suspect(struct table *table, struct entry *entry, enum settle_status status)
{
	retry_policy_return(entry);
	entry_unreserve(entry);
	lanes_settling(&table->order->lanes, entry);
	finish(table, entry, status);
}

/* The crash count of the suspect is raised. The scheduler delivers it, unless it lost its connection, its partition or
 * its place as head meanwhile. */
static void continue_suspect(struct table *table, struct entry *entry)
{
	struct order *order = table->order;

	entry->raised = true;
	if (entry->reservation == NULL || context_is_stopping(table->context)) {
		entry_unreserve(entry);
		entry_requeue(order, entry);
		return;
	}
	order->suspects_due = true;
	context_request_round(table->context);
}

static void raised(struct table *table, const struct job *job, size_t i, enum settle_status status)
{
	struct entry *entry = job->settle.entries[i];

	entry->raising = false;
	if (status == SETTLE_SETTLED) {
		continue_suspect(table, entry);
	} else if (status == SETTLE_LOST || status == SETTLE_COMPLETED) {
		drop_suspect(table, entry, status);
	} else if (status == SETTLE_REFUSED) {
		refused_verdicts_put_off(table, entry, refusal_of(job, i));
	} else {
		entry->settling.retry_at_ms = clock_now_ms() + SUSPECT_WAIT_MS;
		entry_unreserve(entry);
		entry_requeue(table->order, entry);
	}
}

static bool changes_what_waits(const struct job *job)
{
	for (size_t i = 0; i < job->settle.count; i++) {
		if (job->settle.rows[i].outcome != SETTLE_PROCESSED)
			return true;
	}
	return false;
}

static enum settle_status status_of(const struct job *job, size_t i)
{
	return job->result == 0 ? job->settle.rows[i].status : SETTLE_OPEN;
}

/* True when the verdict is put back at the head of the list. */
static bool goes_back(enum settle_status status)
{
	return status == SETTLE_OPEN || status == SETTLE_BEHIND;
}

/* Events were stored. */
static void wake_relay(struct table *table)
{
	struct wake *relay = table->context->options.outbox;

	if (relay != NULL)
		wake_poke(relay);
	if (relay != NULL || table->settler.warned_of_events)
		return;
	table->settler.warned_of_events = true;
	log_warn("events_without_relay",
		LOG_STR("why", "a handler emits events, and outbox.enabled is false"),
		LOG_STR("next", "the events wait in the outbox until a sidecar of this "
				"schema with outbox.enabled publishes them"));
}

void settler_take(struct table *table, struct job *job)
{
	table->settler.under_way -= job->settle.count;
	table->settler.jobs--;
	if (changes_what_waits(job))
		table->gauges.unchanged_until_ms = 0; /* the number of waiting rows has changed */
	if (job->result == 0)
		metric_observe(table->settle_seconds, (double)job->took_us / 1000000.0);
	if (job->result == 0 && job->settle.emit_bytes > 0)
		wake_relay(table);
	/* Verdicts that were not settled are put back at the head of the list. The loop runs from the last to the
	 * first, so they keep their order. */
	for (size_t i = job->settle.count; i-- > 0;) {
		enum settle_status status = status_of(job, i);

		job->settle.entries[i]->settling.job = NULL;
		if (job->kind == JOB_RAISE)
			raised(table, job, i, status);
		else if (goes_back(status))
			settled(table, job, i, status);
	}
	/* Settled verdicts are finished in their order. The next message of each key becomes READY in the same order.
	 */
	for (size_t i = 0; i < job->settle.count; i++) {
		if (job->kind != JOB_SETTLE || goes_back(status_of(job, i)))
			continue;
		tracing_settled(table->order, job->settle.entries[i], job->settle.rows[i].status,
			job->took_us);
		settled(table, job, i, job->settle.rows[i].status);
	}
}
