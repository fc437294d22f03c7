/*
 * Writes verdicts to the table. An idle worker gets all verdicts that wait, up to a limit, as one transaction. So the
 * transactions grow with the load. settle_batching.c decides whether to wait for more verdicts.
 *
 * Promise (guarantee G6): a verdict is kept until the table has it or its claim is known to be lost. A database
 * that is down delays it only. A verdict whose row is locked by a handler's transaction is tried again soon. A
 * verdict whose row PostgreSQL refuses is set aside (settle_retries.c), so that the others are settled.
 *
 * The crash counts of suspects are raised by the same way: JOB_RAISE before the delivery, JOB_SETTLE after it.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "dispatch/core.h"
#include "dispatch/table/settle_batching.h"
#include "dispatch/table/settle_retries.h"

#define BATCH_MOST     2000
/* After this many failed tries, each row is tried in a savepoint of its own to find the one that fails. */
#define REFUSALS_MOST  3
/* Pause before the next try when a handler's transaction holds the lock of the row. */
#define LOCKED_WAIT_MS 200

void settler_init(struct settler *settler)
{
	TAILQ_INIT(&settler->pending);
	TAILQ_INIT(&settler->locked);
	TAILQ_INIT(&settler->retries);
	TAILQ_INIT(&settler->raise);
}

void settler_add(struct dispatch *dispatch, struct entry *entry)
{
	struct settler *settler = &dispatch->settler;

	TAILQ_INSERT_TAIL(&settler->pending, entry, link);
	if (settler->pending_count++ == 0)
		settler->since_ms = clock_now_ms();
	dispatch_schedule(dispatch);
}

void settler_add_raise(struct dispatch *dispatch, struct entry *entry)
{
	entry->raising = true;
	TAILQ_INSERT_TAIL(&dispatch->settler.raise, entry, link);
	dispatch->settler.raise_count++;
	dispatch_schedule(dispatch);
}

bool settler_is_empty(const struct settler *settler)
{
	return settler->pending_count == 0 && settler->raise_count == 0 &&
	       TAILQ_EMPTY(&settler->locked) && settler->under_way == 0 &&
	       !settle_retries_is_due(settler, clock_now_ms());
}

static struct job *job_of(struct dispatch *dispatch, enum job_kind kind, size_t count)
{
	struct job *job = job_new(kind);

	if (job == NULL)
		return NULL;
	job->request.instance = dispatch->options.instance;
	job->rows = calloc(count, sizeof(*job->rows));
	job->entries = calloc(count, sizeof(struct entry *));
	if (job->rows != NULL && job->entries != NULL)
		return job;
	job_free(job);
	return NULL;
}

static void add_entry(struct job *job, struct entry *entry)
{
	struct settle_row *row = &job->rows[job->count];

	job->entries[job->count++] = entry;
	*row = entry->verdict;
	row->seq = entry->message->seq;
	row->delivery_count = entry->message->delivery_count;
	/* Borrowed: a handler is not freed while it has entries. */
	row->handler = entry->handler == NULL ? NULL : entry->handler->name;
	job->isolate |= entry->refusals >= REFUSALS_MOST;
}

static void start_job(struct dispatch *dispatch, struct job *job)
{
	dispatch->settler.under_way += job->count;
	dispatch->settler.jobs++;
	worker_pool_give(dispatch->pool, job);
}

bool settler_give_alone(struct dispatch *dispatch, struct entry *entry)
{
	struct job *job = job_of(dispatch, JOB_SETTLE, 1);

	if (job == NULL)
		return false;
	add_entry(job, entry);
	start_job(dispatch, job);
	return true;
}

static void give(
	struct dispatch *dispatch, enum job_kind kind, struct entry_list *list, size_t *length)
{
	size_t most = *length < BATCH_MOST ? *length : BATCH_MOST;
	struct job *job = job_of(dispatch, kind, most);

	if (job == NULL)
		return; /* no memory now; the next round tries again */
	for (size_t i = 0; i < most; i++) {
		struct entry *entry = TAILQ_FIRST(list);

		TAILQ_REMOVE(list, entry, link);
		add_entry(job, entry);
	}
	*length -= most;
	start_job(dispatch, job);
}

static void unlock_due(struct settler *settler, int64_t now_ms)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&settler->locked)) != NULL && entry->retry_at_ms <= now_ms) {
		TAILQ_REMOVE(&settler->locked, entry, link);
		TAILQ_INSERT_TAIL(&settler->pending, entry, link);
		settler->pending_count++;
	}
}

static bool raise_is_due(const struct settler *settler, int64_t now_ms)
{
	const struct entry *first = TAILQ_FIRST(&settler->raise);

	return first != NULL && first->retry_at_ms <= now_ms;
}

/* Verdicts can arrive without a pause, and a failed transaction comes back at once. If the claimer found no idle
 * worker and none of the busy ones runs a job of it, one worker is left to the claimer. */
static bool may_give(const struct dispatch *dispatch)
{
	size_t claiming = worker_pool_busy(dispatch->pool) - dispatch->settler.jobs;
	size_t kept = dispatch->claimer.needs_worker && claiming == 0 ? 1 : 0;

	return worker_pool_idle(dispatch->pool) > kept;
}

static size_t ready_count(const struct dispatch *dispatch)
{
	const struct handler *handler = dispatch->handlers;
	size_t count = 0;

	for (; handler != NULL; handler = handler->hh.next)
		count += handler->ready_count;
	return count;
}

static bool is_held_up(const struct dispatch *dispatch)
{
	const struct handler *handler = dispatch->handlers;

	if (dispatch->settler.jobs > 0)
		return false;
	while (handler != NULL &&
		(handler->ready_count == 0 || scheduler_allowance(dispatch, handler) > 0))
		handler = handler->hh.next;
	return handler != NULL;
}

static bool is_worth_a_transaction(struct dispatch *dispatch, int64_t now_ms)
{
	const struct settler *settler = &dispatch->settler;
	size_t ready = ready_count(dispatch);
	size_t others = dispatch->in_flight + ready;
	const struct settle_batching batching = {
		.verdicts = settler->pending_count,
		.in_flight = dispatch->in_flight,
		.ready = ready,
		/* Neither in flight nor ready: in most cases they wait for an earlier message of their key. */
		.behind = dispatch->entry_count > others ? dispatch->entry_count - others : 0,
		.held_up = is_held_up(dispatch),
		.most = (size_t)dispatch->options.config->inbox.max_in_flight,
		.since_ms = settler->since_ms,
	};

	if (settle_batching_is_due(&batching, now_ms) || dispatch_is_stopping(dispatch))
		return true;
	dispatch_linger(dispatch, SETTLE_BATCH_WAIT_MS);
	return false;
}

void settler_run(struct dispatch *dispatch, int64_t now_ms)
{
	struct settler *settler = &dispatch->settler;

	unlock_due(settler, now_ms);
	if (now_ms < dispatch->hold_until_ms)
		return;
	if (raise_is_due(settler, now_ms) && may_give(dispatch))
		give(dispatch, JOB_RAISE, &settler->raise, &settler->raise_count);
	while (may_give(dispatch) && settle_retries_give_due(dispatch, now_ms))
		;
	while (settler->pending_count > 0 && may_give(dispatch) &&
		is_worth_a_transaction(dispatch, now_ms)) {
		size_t before = settler->pending_count;

		give(dispatch, JOB_SETTLE, &settler->pending, &settler->pending_count);
		if (settler->pending_count == before)
			return;
	}
}

static void settled(struct dispatch *dispatch, const struct job *job, struct entry *entry,
	enum settle_status status)
{
	switch (status) {
	case SETTLE_OPEN:
		if (db_error_may_be_row(&job->err))
			entry->refusals += entry->refusals < REFUSALS_MOST;
		TAILQ_INSERT_HEAD(&dispatch->settler.pending, entry, link);
		dispatch->settler.pending_count++;
		break;
	case SETTLE_LOCKED:
		entry->retry_at_ms = clock_now_ms() + LOCKED_WAIT_MS;
		TAILQ_INSERT_TAIL(&dispatch->settler.locked, entry, link);
		break;
	case SETTLE_REFUSED:
		settle_retries_add(dispatch, entry, &job->err);
		break;
	case SETTLE_SETTLED:
	case SETTLE_COMPLETED:
	case SETTLE_LOST:
		entry_finish(dispatch, entry, status);
		break;
	}
}

/* The suspect cannot be delivered: another instance has its claim, or it was completed meanwhile. */
static void drop_suspect(struct dispatch *dispatch, struct entry *entry, enum settle_status status)
{
	retry_policy_return(entry);
	if (entry->session != NULL)
		entry->session->suspect = NULL;
	entry->session = NULL;
	entry->state = ENTRY_SETTLING;
	entry_finish(dispatch, entry, status);
}

static void raised(struct dispatch *dispatch, const struct job *job, struct entry *entry,
	enum settle_status status)
{
	entry->raising = false;
	if (status == SETTLE_SETTLED) {
		entry->raised = true;
		suspects_raised(dispatch, entry);
	} else if (status == SETTLE_LOST || status == SETTLE_COMPLETED) {
		drop_suspect(dispatch, entry, status);
	} else if (status == SETTLE_REFUSED) {
		settle_retries_put_off(dispatch, entry, &job->err);
	} else {
		entry->retry_at_ms = clock_now_ms() + LOCKED_WAIT_MS;
		settler_add_raise(dispatch, entry);
	}
}

static bool changes_what_waits(const struct job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		if (job->rows[i].outcome != SETTLE_PROCESSED)
			return true;
	}
	return false;
}

void settler_finished(struct dispatch *dispatch, struct job *job)
{
	dispatch->settler.under_way -= job->count;
	dispatch->settler.jobs--;
	if (changes_what_waits(job))
		dispatch->claimer.gauges_unchanged_until_ms =
			0; /* the number of waiting rows has changed */
	if (job->result == 0)
		metric_observe(dispatch->settle_seconds, (double)job->took_us / 1000000.0);
	/* Failed verdicts are put back at the head of the list. From the last to the first, they keep their order. */
	for (size_t i = job->count; i-- > 0;) {
		enum settle_status status = job->result == 0 ? job->rows[i].status : SETTLE_OPEN;

		if (job->kind == JOB_RAISE)
			raised(dispatch, job, job->entries[i], status);
		else if (status == SETTLE_OPEN)
			settled(dispatch, job, job->entries[i], status);
	}
	/* Settled verdicts are finished in their order. The next message of each key becomes READY in the same order.
	 */
	for (size_t i = 0; i < job->count; i++) {
		if (job->kind != JOB_SETTLE || job->result != 0 ||
			job->rows[i].status == SETTLE_OPEN)
			continue;
		tracing_settled(dispatch, job, i);
		settled(dispatch, job, job->entries[i], job->rows[i].status);
	}
}
