/*
 * Takes what other threads pass to dispatch: batches from ingest and finished jobs of the workers.
 *
 * Rows reach memory by two ways, from ingest and by claims. Three races between them would break the order of a key:
 * - A batch waits until all claims that were given before it have arrived. Its INSERT found no older row of a key
 *   waiting, perhaps because such a claim had just taken it. That row must enter memory first.
 * - A claim waits until the batch that was being committed at the time has arrived. The claim passes over the
 *   born-claimed rows of this batch, and can bring later rows of the same keys.
 * - Revocations that precede a finished job are applied before it. A revocation forgets what waits in the table,
 *   except behind messages in memory. If it came after the settle that returned a row, the row would be forgotten,
 *   and a batch that was stored before this settle would overtake it.
 */
#include <stdlib.h>

#include "base/faultpoint.h"
#include "dispatch/groups/handler_memory.h"
#include "dispatch/loop.h"

/* A batch from ingest that waits for claims. */
struct arrival {
	struct handover *handover;
	int64_t after_claims; /* it waits until all claims up to this number have arrived */
	bool order_unknown;   /* a claim was lost or a partition revoked while it waited */
	STAILQ_ENTRY(arrival) link;
};

/* A claim was lost or a partition revoked: the order of the arrivals that wait is unknown. */
static void mark_order_unknown(struct dispatch *dispatch)
{
	struct arrival *arrival;

	STAILQ_FOREACH (arrival, &dispatch->arrivals.waiting, link)
		arrival->order_unknown = true;
}

static bool is_revoked(void *admission, size_t stream)
{
	return !admission_get(admission, stream).assigned;
}

/*
 * The partitions of these streams were revoked. Messages that are not delivered go back to the table. Messages that are
 * still in the arrival list go back when they are admitted, because the partition is no longer assigned. All messages and
 * lanes are looked at once, not once for each stream: there can be thousands of streams.
 *
 * A partition may be assigned to this instance again before a waiting arrival, or a claim that is under way,
 * is admitted. Its lanes are gone then, and with them the knowledge of which rows went back to the table. So both
 * are marked: the arrivals directly, the claims by the count of revocations.
 */
static void revoke(struct dispatch *dispatch, const size_t *streams, size_t count)
{
	struct admission *admission = dispatch->context.options.admission;
	struct order *order = &dispatch->order;

	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++)
		admission_revoke(admission, streams[i]);
	mark_order_unknown(dispatch);
	order->revocations++;
	claim_cursor_forget(&dispatch->table.claimer.cursor);
	suspects_release(&dispatch->schedule, false);
	entries_return_undelivered(order, false);
	deliveries_bound(&dispatch->schedule);
	key_holds_drop(order);
	lanes_forget_streams(&order->lanes, is_revoked, admission);
}

/* Revocations and acquisitions take effect at once, before a batch or a claim of this round is admitted: the keys that
 * another instance still holds must be held before a message of them enters memory. */
static void apply_rebalance(struct dispatch *dispatch, const struct handover *handover)
{
	revoke(dispatch, handover->revoked, handover->revoked_count);
	key_holds_add(&dispatch->order, handover);
	for (size_t i = 0; i < handover->acquired_count; i++)
		admission_assign(dispatch->context.options.admission, handover->acquired[i], true);
	if (handover->acquired_count > 0)
		claimer_sweep_soon(&dispatch->table);
}

/* The rows that ingest stored as parked are noted before the messages are admitted, so that a later message of the same
 * key is not delivered before them. */
static void admit_handover(
	struct dispatch *dispatch, struct handover *handover, enum entry_origin origin)
{
	FAULT_POINT("before_admit");
	for (size_t i = 0; i < handover->parked_count; i++)
		(void)lanes_parked(&dispatch->order.lanes, handover->parked[i].stream,
			handover->parked[i].key_hash, handover->parked[i].offset, NULL);
	for (size_t i = 0; i < handover->count; i++) {
		struct message *message = handover->items[i].message;

		handover->items[i].message = NULL;
		entry_admit(&dispatch->order, message, handover->items[i].stream, origin, 0);
	}
	/* A handler above its share gets no message of the next batch. */
	handler_groups_update_shares(&dispatch->groups);
	handover_free(handover);
}

/*
 * The first race of the file comment. If a claim was lost, the batch waits until the rescue has given the claim's rows
 * back to the table. Ordered messages of the batch are parked behind them then (order_unknown).
 */
static bool must_wait(const struct dispatch *dispatch, const struct arrival *arrival)
{
	return open_claims_arrived_to(&dispatch->order.open_claims) < arrival->after_claims ||
	       claimer_in_doubt(&dispatch->table);
}

static bool queue_arrival(struct dispatch *dispatch, struct handover *handover)
{
	struct arrival *arrival = calloc(1, sizeof(*arrival));

	if (arrival == NULL)
		return false;
	arrival->handover = handover;
	arrival->after_claims = dispatch->order.open_claims.given;
	arrival->order_unknown = claimer_in_doubt(&dispatch->table);
	STAILQ_INSERT_TAIL(&dispatch->arrivals.waiting, arrival, link);
	return true;
}

/* Admits all arrivals before the scheduler delivers anything. A claim can have brought a later row of a key whose
 * earlier, born-claimed row is in one of these batches. entry_admit() puts the later one back behind it, which is
 * possible only until it is delivered. */
static void admit_arrivals(struct dispatch *dispatch)
{
	struct arrival *arrival;

	while ((arrival = STAILQ_FIRST(&dispatch->arrivals.waiting)) != NULL &&
		!must_wait(dispatch, arrival)) {
		STAILQ_REMOVE_HEAD(&dispatch->arrivals.waiting, link);
		admit_handover(dispatch, arrival->handover,
			arrival->order_unknown ? ENTRY_BORN_ORDER_UNKNOWN : ENTRY_BORN);
		free(arrival);
	}
}

/* Takes all that ingest has passed. Rebalances take effect, and batches wait for their turn. */
static void empty_queue(struct dispatch *dispatch)
{
	void *item = NULL;

	/* Bounded: ingest does not store more than the budget of claimed messages. */
	while (queue_pop(dispatch->context.options.in, &item, 0) == 0) {
		apply_rebalance(dispatch, item);
		if (!queue_arrival(dispatch, item))
			/* Without memory for the list it cannot wait, so its order is unknown. */
			admit_handover(dispatch, item, ENTRY_BORN_ORDER_UNKNOWN);
	}
}

void arrivals_take(struct dispatch *dispatch)
{
	empty_queue(dispatch);
	admit_arrivals(dispatch);
}

void arrivals_drop(struct dispatch *dispatch)
{
	struct arrival *arrival;
	struct job *job;

	while ((arrival = STAILQ_FIRST(&dispatch->arrivals.waiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&dispatch->arrivals.waiting, link);
		handover_free(arrival->handover);
		free(arrival);
	}
	while ((job = STAILQ_FIRST(&dispatch->arrivals.claims)) != NULL) {
		STAILQ_REMOVE_HEAD(&dispatch->arrivals.claims, link);
		job_free(job);
	}
}

/* ------------------------------------------------------------------ finished jobs */

static bool is_claim(const struct job *job)
{
	return job->kind == JOB_DUE || job->kind == JOB_LANES;
}

/* The second race of the file comment: a batch that had begun its COMMIT when the claim arrived (`behind`) is not in
 * the queue yet. */
static bool must_wait_for_batch(const struct dispatch *dispatch, const struct job *job)
{
	return job->claim.claimed.count > 0 &&
	       admission_is_ordered(dispatch->context.options.admission) &&
	       !context_is_stopping(&dispatch->context) &&
	       atomic_load(&dispatch->context.options.commit_handover->ended) < job->claim.behind;
}

static void take_claim(struct dispatch *dispatch, struct job *job)
{
	/* The batches that wait for a lost claim may belong behind its rows. */
	if (job->result == CLAIM_UNKNOWN)
		mark_order_unknown(dispatch);
	jobs_ended(&dispatch->table, job);
	claim_results_take(&dispatch->table, job);
	job_free(job);
}

/* In the order in which they arrived. With an order only one claim runs at a time, but the first ordered consumer can become
 * known while several run. */
static void take_claims(struct dispatch *dispatch)
{
	struct job *job;

	while ((job = STAILQ_FIRST(&dispatch->arrivals.claims)) != NULL &&
		!must_wait_for_batch(dispatch, job)) {
		STAILQ_REMOVE_HEAD(&dispatch->arrivals.claims, link);
		take_claim(dispatch, job);
	}
}

static void take_other(struct dispatch *dispatch, struct job *job)
{
	if (job->kind == JOB_SETTLE || job->kind == JOB_RAISE) {
		settler_take(&dispatch->table, job);
	} else {
		jobs_ended(&dispatch->table, job);
		if (job->kind == JOB_LEASED) {
			leased_take(&dispatch->sessions, job);
		} else if (job->kind == JOB_HANDLERS) {
			if (job->handlers.known.pauses_read)
				pausing_take(dispatch, &job->handlers.known.pauses);
			handler_memory_take(&dispatch->groups, job);
		} else {
			maintenance_take(&dispatch->table, job);
		}
	}
	job_free(job);
}

void arrivals_take_jobs(struct dispatch *dispatch)
{
	struct job *job;

	take_claims(dispatch);
	while ((job = jobs_take(&dispatch->table)) != NULL) {
		empty_queue(dispatch); /* the third race */
		if (!is_claim(job)) {
			take_other(dispatch, job);
			continue;
		}
		job->claim.behind = atomic_load(&dispatch->context.options.commit_handover->begun);
		STAILQ_INSERT_TAIL(&dispatch->arrivals.claims, job, link);
		take_claims(dispatch);
	}
}
