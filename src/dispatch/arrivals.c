/*
 * Takes what other threads pass to dispatch: batches from ingest and finished jobs of the workers.
 *
 * Rows reach memory by two ways, from ingest and by claims. Two races between them would break the order of a key:
 * - A batch waits until all claims that were given before it have arrived. Its INSERT found no older row of a key
 *   waiting, perhaps because such a claim had just taken it. That row must enter memory first.
 * - A claim waits until the batch that was being committed at the time has arrived. The claim passes over the
 *   born-claimed rows of this batch, and can bring later rows of the same keys.
 *
 * The result of each job also tells whether the database works, and so when the next job is given.
 */
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "dispatch/core.h"

#define DB_BACKOFF_MS     100
#define DB_BACKOFF_MAX_MS 5000
#define DB_BUSY_MAX_MS    1000

/* A batch from ingest that waits for claims. */
struct arrival {
	struct handover *handover;
	int64_t after_claims; /* it waits until all claims up to this number have arrived */
	bool order_unknown;   /* a claim was lost or a partition revoked while it waited */
	STAILQ_ENTRY(arrival) link;
};

/*
 * Kafka took the partition away. Messages that are not delivered go back to the table. Messages that are still
 * in the arrival list go back when they are admitted, because the partition is no longer assigned.
 *
 * The partition may be assigned to this instance again before a waiting arrival, or a claim that is under way,
 * is admitted. Its lanes are gone then, and with them the knowledge of which rows went back to the table. So both
 * are marked: the arrivals directly, the claims by the count of revocations.
 */
static void on_revoked(struct dispatch *dispatch, size_t partition)
{
	admission_revoke(dispatch->options.admission, partition);
	arrivals_mark_order_unknown(dispatch);
	dispatch->revocations++;
	claim_cursor_forget(&dispatch->claimer.cursor);
	suspects_release(dispatch, partition);
	entries_return_undelivered(dispatch, partition);
	delivery_bound(dispatch, partition);
	key_holds_drop(dispatch, partition);
	lanes_forget(&dispatch->lanes, partition, SIZE_MAX, 0);
}

/* Revocations and acquisitions take effect at once, before a batch or a claim of this round is admitted: the keys that
 * another instance still holds must be held before a message of them enters memory. */
static void apply_rebalance(struct dispatch *dispatch, const struct handover *handover)
{
	for (size_t i = 0; i < handover->revoked_count; i++)
		on_revoked(dispatch, handover->revoked[i]);
	key_holds_add(dispatch, handover);
	for (size_t i = 0; i < handover->acquired_count; i++)
		admission_assign(dispatch->options.admission, handover->acquired[i], true);
	if (handover->acquired_count > 0)
		claimer_sweep_soon(dispatch);
}

/* The rows that ingest stored as parked are noted before the messages are admitted, so that a later message of the same
 * key is not delivered before them. */
static void admit_handover(
	struct dispatch *dispatch, struct handover *handover, enum entry_origin origin)
{
	FAULT_POINT("before_admit");
	for (size_t i = 0; i < handover->parked_count; i++)
		(void)lanes_parked(&dispatch->lanes, handover->parked[i].partition,
			handover->parked[i].key_hash, handover->parked[i].offset, NULL);
	for (size_t i = 0; i < handover->count; i++) {
		struct message *message = handover->items[i].message;

		handover->items[i].message = NULL;
		entry_admit(dispatch, message, handover->items[i].partition, origin, 0);
	}
	handover_free(handover);
}

/*
 * The first race of the file comment. If a claim was lost, the batch waits until the rescue has given the claim's rows
 * back to the table. Ordered messages of the batch are parked behind them then (order_unknown).
 */
static bool must_wait(const struct dispatch *dispatch, const struct arrival *arrival)
{
	const struct claimer *claimer = &dispatch->claimer;

	return open_claims_arrived_to(&claimer->open) < arrival->after_claims ||
	       claimer_in_doubt(claimer);
}

static bool queue_arrival(struct dispatch *dispatch, struct handover *handover)
{
	struct arrival *arrival = calloc(1, sizeof(*arrival));

	if (arrival == NULL)
		return false;
	arrival->handover = handover;
	arrival->after_claims = dispatch->claimer.open.given;
	arrival->order_unknown = claimer_in_doubt(&dispatch->claimer);
	STAILQ_INSERT_TAIL(&dispatch->arrivals, arrival, link);
	return true;
}

/* Admits all arrivals before the scheduler delivers anything. A claim can have brought a later row of a key whose
 * earlier, born-claimed row is in one of these batches. entry_admit() puts the later one back behind it, which is
 * possible only until it is delivered. */
static void admit_arrivals(struct dispatch *dispatch)
{
	struct arrival *arrival;

	while ((arrival = STAILQ_FIRST(&dispatch->arrivals)) != NULL &&
		!must_wait(dispatch, arrival)) {
		STAILQ_REMOVE_HEAD(&dispatch->arrivals, link);
		admit_handover(dispatch, arrival->handover,
			arrival->order_unknown ? ENTRY_BORN_ORDER_UNKNOWN : ENTRY_BORN);
		free(arrival);
	}
}

void arrivals_take(struct dispatch *dispatch)
{
	void *item = NULL;

	/* Bounded: ingest does not store more than the budget of claimed messages. */
	while (queue_pop(dispatch->options.in, &item, 0) == 0) {
		apply_rebalance(dispatch, item);
		if (!queue_arrival(dispatch, item))
			/* Without memory for the list it cannot wait, so its order is unknown. */
			admit_handover(dispatch, item, ENTRY_BORN_ORDER_UNKNOWN);
	}
	admit_arrivals(dispatch);
}

void arrivals_mark_order_unknown(struct dispatch *dispatch)
{
	struct arrival *arrival;

	STAILQ_FOREACH (arrival, &dispatch->arrivals, link)
		arrival->order_unknown = true;
}

void arrivals_drop(struct dispatch *dispatch)
{
	struct arrival *arrival;

	while ((arrival = STAILQ_FIRST(&dispatch->arrivals)) != NULL) {
		STAILQ_REMOVE_HEAD(&dispatch->arrivals, link);
		handover_free(arrival->handover);
		free(arrival);
	}
	job_free(dispatch->delayed_claim);
	dispatch->delayed_claim = NULL;
}

/* ------------------------------------------------------------------ finished jobs */

static void on_database_fault(struct dispatch *dispatch, const struct job *job)
{
	enum pg_error_class class = db_error_kind(&job->err);
	bool busy = class == PG_ERROR_BUSY || class == PG_ERROR_SLOW;
	int64_t delay = backoff_delay_ms(DB_BACKOFF_MS, busy ? DB_BUSY_MAX_MS : DB_BACKOFF_MAX_MS,
		dispatch->faults, random_u64());

	metric_add(metrics_get(dispatch->options.metrics, METER_PG_ERRORS,
			   db_error_class(&job->err), NULL),
		1);
	dispatch->connection_was_lost |= class == PG_ERROR_LOST;
	if (dispatch->faults++ == 0)
		log_warn(busy ? "dispatch_database_busy" : "dispatch_database_lost",
			LOG_STR("error", job->err.text), LOG_STR("sqlstate", job->err.state),
			LOG_STR("class", pg_error_class_name(class)), LOG_INT("retry_in_ms", delay),
			LOG_STR("next",
				"verdicts are kept and settled when the database answers again"));
	dispatch->hold_until_ms = clock_now_ms() + delay;
}

static void on_database_ok(struct dispatch *dispatch)
{
	if (dispatch->faults > 0)
		log_info("dispatch_database_back", LOG_INT("failed_jobs", dispatch->faults));
	if (dispatch->connection_was_lost)
		metric_add(
			metrics_get(dispatch->options.metrics, METER_PG_RECONNECTS, NULL, NULL), 1);
	dispatch->faults = 0;
	dispatch->connection_was_lost = false;
}

/* The second race of the file comment: a batch that had begun its COMMIT when the claim arrived (`behind`) is not in
 * the queue yet. */
static bool must_wait_for_batch(const struct dispatch *dispatch, const struct job *job)
{
	bool claims = job->kind == JOB_DUE || job->kind == JOB_LANES;

	return claims && job->claimed.count > 0 && dispatch->lanes.ordering != ORDERING_NONE &&
	       !dispatch_is_stopping(dispatch) &&
	       atomic_load(&dispatch->options.commit_handover->ended) < job->behind;
}

static void take_job(struct dispatch *dispatch, struct job *job)
{
	if (must_wait_for_batch(dispatch, job)) {
		/* There is room for it: with an order, only one claim runs at a time. */
		dispatch->delayed_claim = job;
		return;
	}
	if (job->kind == JOB_SETTLE || job->kind == JOB_RAISE)
		settler_finished(dispatch, job);
	else
		claim_results_take(dispatch, job);
	job_free(job);
}

void arrivals_take_jobs(struct dispatch *dispatch)
{
	struct job *job = dispatch->delayed_claim;

	dispatch->delayed_claim = NULL;
	if (job != NULL)
		take_job(dispatch, job);
	while ((job = worker_pool_take(dispatch->pool)) != NULL) {
		if (job->result != 0)
			on_database_fault(dispatch, job);
		else
			on_database_ok(dispatch);
		job->behind = atomic_load(&dispatch->options.commit_handover->begun);
		take_job(dispatch, job);
	}
}
