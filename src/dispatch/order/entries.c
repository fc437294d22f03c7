/*
 * The messages in memory. Every claimed message is one entry from its arrival until its verdict is committed.
 * This file moves entries between their states; entry.h has the diagram.
 *
 * It also computes the bounds that the heartbeat writes to inbox_instances, so that a rescue of this instance finds
 * all its rows (rule R3). The list of born-claimed entries is in the order of seq. `low_seq` is its first seq, or
 * one more than the highest seq so far if the list is empty. Rows of a batch that has not arrived yet have higher
 * seqs, because one connection stores one batch after the other.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "dispatch/core.h"
#include "dispatch/table/settle_retries.h"

static int64_t low_from(const struct dispatch *dispatch, const struct entry *lowest)
{
	int64_t low = lowest != NULL ? lowest->message->seq : dispatch->max_seq + 1;

	return low < dispatch->refused_seq ? low : dispatch->refused_seq;
}

/* One message that stays open for long would keep low_seq low, and a rescue would read every row above it. So the
 * first open messages are listed as stragglers, and low_rest is the bound of the others. */
void entries_publish_bounds(struct dispatch *dispatch)
{
	const struct entry *entry = TAILQ_FIRST(&dispatch->born);
	struct bounds bounds = { .low_seq = low_from(dispatch, entry) };

	for (; entry != NULL && bounds.straggler_count < BOUNDS_STRAGGLERS &&
		entry->message->seq < dispatch->refused_seq;
		entry = TAILQ_NEXT(entry, born_link))
		bounds.stragglers[bounds.straggler_count++] = entry->message->seq;
	bounds.low_rest = low_from(dispatch, entry);
	(void)pthread_mutex_lock(&dispatch->heartbeat_lock);
	dispatch->bounds = bounds;
	(void)pthread_mutex_unlock(&dispatch->heartbeat_lock);
}

static struct handler *route(struct dispatch *dispatch, const struct message *message)
{
	const char *name = routing_find(dispatch->routing, message->topic, message->type);
	struct handler *handler = NULL;

	if (name != NULL)
		HASH_FIND_STR(dispatch->handlers, name, handler);
	return handler != NULL && handler->routed ? handler : NULL;
}

/* Counts the entry to the share of this handler instead of the one before. NULL: to no handler. */
static void charge_to(struct dispatch *dispatch, struct entry *entry, struct handler *handler)
{
	if (handler == entry->handler)
		return;
	if (entry->handler != NULL)
		handlers_count_entry(dispatch, entry->handler, entry->message, false);
	entry->handler = handler;
	if (handler != NULL)
		handlers_count_entry(dispatch, handler, entry->message, true);
}

static void assign_handler(struct dispatch *dispatch, struct entry *entry)
{
	charge_to(dispatch, entry, route(dispatch, entry->message));
}

/* Neither seqs nor answers come in random order. With the seq itself as hash, entries that are looked up one after the
 * other are in neighbouring buckets, which the CPU has in its cache. */
static unsigned hash_of(int64_t seq)
{
	return (unsigned)((uint64_t)seq ^ (uint64_t)seq >> 32);
}

struct entry *entry_find(struct dispatch *dispatch, int64_t seq, int delivery_count)
{
	struct entry *entry = NULL;

	HASH_FIND_BYHASHVALUE(hh, dispatch->entries, &seq, sizeof(seq), hash_of(seq), entry);
	if (entry == NULL || entry->message->delivery_count != delivery_count)
		return NULL;
	return entry;
}

/* There is no memory for the entry, so its row cannot be settled either. The row stays claimed by this instance. The
 * bounds (low_seq for a born row, low_claim for a claimed one) stay below it, so that a rescue of this instance
 * finds it. */
static void refuse(struct dispatch *dispatch, struct message *message, int64_t number)
{
	if (number > 0)
		(void)open_claims_hold(&dispatch->claimer.open, number);
	else if (message->seq < dispatch->refused_seq)
		dispatch->refused_seq = message->seq;
	log_error("message_not_held", LOG_STR("event_id", message->event_id),
		LOG_STR("why", "out of memory"),
		LOG_STR("next",
			"its row stays claimed until this instance is restarted or rescued"));
	admission_release(dispatch->options.admission, 1, message->bytes);
	message_free(message);
}

static struct entry *entry_new(
	struct dispatch *dispatch, struct message *message, size_t partition, bool born)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (entry == NULL)
		return NULL;
	entry->message = message;
	entry->partition = partition;
	entry->state = ENTRY_QUEUED;
	entry->born = born;
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, dispatch->entries, &message->seq, sizeof(message->seq),
		hash_of(message->seq), entry);
	if (entry->hh.tbl == NULL) {
		free(entry);
		return NULL;
	}
	if (born)
		TAILQ_INSERT_TAIL(&dispatch->born, entry, born_link);
	dispatch->entry_count++;
	if (born && message->seq > dispatch->max_seq)
		dispatch->max_seq = message->seq;
	return entry;
}

static void entry_free(struct dispatch *dispatch, struct entry *entry)
{
	HASH_DEL(dispatch->entries, entry);
	if (entry->born)
		TAILQ_REMOVE(&dispatch->born, entry, born_link);
	open_claims_release(&dispatch->claimer.open, entry->claim);
	dispatch->entry_count--;
	charge_to(dispatch, entry, NULL);
	admission_release(dispatch->options.admission, 1, entry->message->bytes);
	retry_policy_clear(entry);
	message_free(entry->message);
	free(entry);
}

/*
 * Race: a claim reads the table while a batch of ingest is between its COMMIT and the queue. The claim passes over
 * the born-claimed rows of this batch, and its own rows can arrive first. When the earlier message arrives now, the
 * later one is READY or RESERVED. It is not delivered yet, so it goes back behind the earlier one.
 */
static bool recall_next_of_lane(struct entry *entry)
{
	struct entry *next = entry->lane == NULL ? NULL : TAILQ_NEXT(entry, lane_link);

	if (next == NULL || !lanes_is_head(entry))
		return false;
	if (next->state == ENTRY_RESERVED) {
		suspects_recall(next);
		return true;
	}
	if (next->state != ENTRY_READY)
		return false;
	handlers_dequeue(next);
	next->state = ENTRY_QUEUED;
	return true;
}

void entry_admit(struct dispatch *dispatch, struct message *message, size_t partition,
	enum entry_origin origin, int64_t number)
{
	struct admission_partition where = admission_get(dispatch->options.admission, partition);
	enum lane_arrival arrival = ADMIT_PARK;
	bool born = origin == ENTRY_BORN || origin == ENTRY_BORN_ORDER_UNKNOWN;
	bool order_unknown =
		origin == ENTRY_BORN_ORDER_UNKNOWN || origin == ENTRY_CLAIMED_ORDER_UNKNOWN;
	struct entry *entry = entry_new(dispatch, message, partition, born);

	if (entry == NULL) {
		refuse(dispatch, message, number);
		return;
	}
	entry->claim = number == 0 ? NULL : open_claims_hold(&dispatch->claimer.open, number);
	assign_handler(dispatch, entry);
	if (lanes_admit(&dispatch->lanes, entry, &arrival, NULL) != 0 ||
		(order_unknown && entry->lane != NULL))
		arrival = ADMIT_PARK;
	/* The entry is in its lane also when it is returned at once. If the partition is assigned to this instance
	 * again before the row is back in the table, later messages of the key must wait for it. */
	if (dispatch_is_stopping(dispatch) || !where.assigned)
		entry_return(dispatch, entry);
	else if (arrival == ADMIT_PARK)
		entry_park(dispatch, entry);
	else if (arrival == ADMIT_HEAD || recall_next_of_lane(entry))
		entry_ready(dispatch, entry);
}

void entry_ready(struct dispatch *dispatch, struct entry *entry)
{
	if (dispatch_is_stopping(dispatch)) {
		entry_return(dispatch, entry);
		return;
	}
	entry->state = ENTRY_QUEUED;
	assign_handler(dispatch, entry);
	if (entry->handler == NULL) {
		entry_park(dispatch, entry);
		return;
	}
	entry->state = ENTRY_READY;
	handlers_enqueue(dispatch, entry);
	dispatch_schedule(dispatch);
}

/* Removes the entry from the list that belongs to its state. */
static void detach(struct dispatch *dispatch, struct entry *entry)
{
	if (entry->state == ENTRY_READY)
		handlers_dequeue(entry);
	else if (entry->state == ENTRY_OPEN)
		handlers_close_delivery(dispatch, entry);
}

void entry_park(struct dispatch *dispatch, struct entry *entry)
{
	detach(dispatch, entry);
	retry_policy_park(entry);
	entry_settle(dispatch, entry);
}

void entry_evict(struct dispatch *dispatch, struct entry *entry)
{
	detach(dispatch, entry);
	entry->state = ENTRY_QUEUED;
	charge_to(dispatch, entry, NULL);
	entry_park(dispatch, entry);
}

void entry_return(struct dispatch *dispatch, struct entry *entry)
{
	detach(dispatch, entry);
	retry_policy_return(entry);
	entry_settle(dispatch, entry);
}

/*
 * The entry goes back to the table, for a retry or because it is parked. The messages queued behind it could only wait
 * in memory and use up the budget, so they go back as well. They are parked: a claim of the lane takes the whole
 * run when the first row is due. If the first row is due at once, all of them are returned as waiting.
 */
static void follow_outside(struct dispatch *dispatch, struct entry *entry)
{
	struct entry *next = TAILQ_NEXT(entry, lane_link);

	for (; next != NULL; next = TAILQ_NEXT(next, lane_link)) {
		if (next->state != ENTRY_QUEUED)
			continue;
		if (entry->end == END_RETURNED && entry->verdict.outcome == SETTLE_WAITING &&
			entry->verdict.delay_ms == 0)
			retry_policy_return(next);
		else
			retry_policy_park(next);
		next->state = ENTRY_SETTLING;
		settler_add(dispatch, next);
	}
}

void entry_settle(struct dispatch *dispatch, struct entry *entry)
{
	bool outside = entry->verdict.outcome >= SETTLE_WAITING;

	tracing_delivered(dispatch, entry);
	entry->state = ENTRY_SETTLING;
	if (entry->end == END_RETRY)
		FAULT_POINT("before_retry");
	if (outside)
		admission_dirty(dispatch->options.admission, entry->partition);
	if (outside && entry->lane != NULL)
		follow_outside(dispatch, entry);
	settler_add(dispatch, entry);
}

static void count_end(
	struct dispatch *dispatch, const struct entry *entry, enum settle_status status)
{
	enum entry_end end = entry->end;
	int64_t born_ms = entry->message->timestamp_ms;
	int64_t pg_now = clock_now_ms() + atomic_load(dispatch->options.pg_offset_ms);

	if (status == SETTLE_LOST) {
		metric_add(dispatch->claim_lost, 1);
		return;
	}
	if (status == SETTLE_COMPLETED && end != END_DONE && end != END_RETURNED)
		end = END_SETTLED; /* inbox.complete() committed before the timeout or the lost connection */
	else if (end == END_SETTLED)
		end = entry->verdict.outcome == SETTLE_DEAD ? END_DEAD : END_RETRY;
	if (end != END_RETURNED && entry->handler != NULL)
		metric_add(entry->handler->ended[end], 1);
	if ((end == END_DONE || end == END_SETTLED) && born_ms >= 0 && pg_now > born_ms)
		metric_observe(dispatch->end_to_end, (double)(pg_now - born_ms) / 1000.0);
	if (entry->verdict.outcome == SETTLE_DEAD)
		dispatch->claimer.slow_gauges_at_ms =
			0; /* the next gauges count the dead messages */
}

static void end_flight(struct dispatch *dispatch, struct entry *entry)
{
	if (!entry->in_flight)
		return;
	entry->in_flight = false;
	dispatch->in_flight--;
	if (entry->handler != NULL) {
		entry->handler->in_flight--;
		metric_set(entry->handler->in_flight_gauge, (double)entry->handler->in_flight);
	}
	dispatch_schedule(dispatch);
}

void entry_finish(struct dispatch *dispatch, struct entry *entry, enum settle_status status)
{
	/* With a lost claim the row may wait in the table as well: perhaps an earlier try of this verdict was committed
	 * and its answer was lost. */
	bool outside = status != SETTLE_COMPLETED && entry->verdict.outcome >= SETTLE_WAITING;
	bool waiting = outside && entry->verdict.outcome == SETTLE_WAITING;
	struct entry *next;

	settle_retries_end(dispatch, entry);
	count_end(dispatch, entry, status);
	end_flight(dispatch, entry);
	if (outside)
		admission_dirty(dispatch->options.admission, entry->partition);
	if (entry->end == END_RETRY)
		FAULT_POINT("after_retry");
	if (waiting && !dispatch_is_stopping(dispatch))
		claimer_expect(dispatch, entry->verdict.delay_ms);
	next = lanes_leave(&dispatch->lanes, entry, outside, waiting);
	entry_free(dispatch, entry);
	if (next == NULL)
		return;
	if (lanes_must_park(next))
		entry_park(dispatch, next);
	else
		entry_ready(dispatch, next);
}

void entries_return_undelivered(struct dispatch *dispatch, size_t partition)
{
	struct entry *entry;
	struct entry *next;

	HASH_ITER (hh, dispatch->entries, entry, next) {
		bool undelivered = entry->state == ENTRY_QUEUED || entry->state == ENTRY_READY;

		if (undelivered && (partition == SIZE_MAX || entry->partition == partition))
			entry_return(dispatch, entry);
	}
}

void entries_drop_all(struct dispatch *dispatch)
{
	struct entry *entry;
	struct entry *next;

	HASH_ITER (hh, dispatch->entries, entry, next)
		entry_free(dispatch, entry);
}
