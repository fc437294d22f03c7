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

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/order/order.h"
#include "report/meters.h"

/* One lane may have this part of the messages in memory. What arrives above it is parked in the table. */
#define LANE_PART       4
/* It may have all of them while its oldest message arrived less than this time ago. */
#define LANE_FAST_MS    5000
/* If a message is retried within this time, and half of the budget is free, the next entries of its lane stay in
 * memory, as many as a claim can bring. */
#define SHORT_RETRY_MS  2000
/* After this much more time they go back to the table, too, if the retry was not claimed. */
#define RETRY_GRACE_MS  3000

/* Events that wait for PostgreSQL. Above it no answers are read of a handler that has its share of them; each answer can
 * have a line of events. */
#define EMIT_BYTES_MOST ((size_t)32 * 1024 * 1024)

static int64_t low_from(const struct order *order, const struct entry *lowest)
{
	int64_t low = lowest != NULL ? lowest->message->seq : order->bounds.max_seq + 1;

	return low < order->bounds.refused_seq ? low : order->bounds.refused_seq;
}

/* One message that stays open for long would keep low_seq low, and a rescue would read every row above it. So the
 * first open messages are listed as stragglers, and low_rest is the bound of the others. */
void entries_publish_bounds(struct order *order)
{
	const struct entry *entry = TAILQ_FIRST(&order->born);
	struct bounds bounds = { .low_seq = low_from(order, entry) };

	for (; entry != NULL && bounds.straggler_count < BOUNDS_STRAGGLERS &&
		entry->message->seq < order->bounds.refused_seq;
		entry = TAILQ_NEXT(entry, born_link))
		bounds.stragglers[bounds.straggler_count++] = entry->message->seq;
	bounds.low_rest = low_from(order, entry);
	(void)pthread_mutex_lock(&order->bounds.lock);
	order->bounds.published = bounds;
	(void)pthread_mutex_unlock(&order->bounds.lock);
}

void entries_bounds(struct order *order, struct bounds *out)
{
	(void)pthread_mutex_lock(&order->bounds.lock);
	*out = order->bounds.published;
	(void)pthread_mutex_unlock(&order->bounds.lock);
}

bool order_may_deliver(const struct order *order, size_t stream)
{
	struct admission_stream where = admission_get(order->context->options.admission, stream);

	return where.assigned && !where.paused;
}

/* Routes the message to the handler with the most specific subscription, if that is connected and not paused. */
static void assign_handler(struct order *order, struct entry *entry)
{
	const struct message *message = entry->message;
	const struct routing_key key = { message->consumer, message->topic, message->type };
	const char *name = routing_find(order->routing, &key);
	struct handler_queue *queue =
		name == NULL ? NULL
			     : handler_queues_find(&order->queues,
				       (struct handler_id){ message->consumer, name });

	handler_queue_assign(&order->queues, entry,
		queue != NULL && queue->routed && !queue->paused ? queue : NULL);
}

/* Neither seqs nor answers come in random order. With the seq itself as hash, entries that are looked up one after the
 * other are in neighbouring buckets, which the CPU has in its cache. */
static unsigned hash_of(int64_t seq)
{
	return (unsigned)((uint64_t)seq ^ (uint64_t)seq >> 32);
}

struct entry *entry_find(const struct order *order, int64_t seq, int delivery_count)
{
	const struct entry_key key = { seq, delivery_count };
	struct entry *entry = NULL;

	HASH_FIND_BYHASHVALUE(hh, order->entries, &key, sizeof(key), hash_of(seq), entry);
	return entry;
}

/* There is no memory for the entry, so its row cannot be settled either. The row stays claimed by this instance. The
 * bounds (low_seq for a born row, low_claim for a claimed one) stay below it, so that a rescue of this instance
 * finds it. */
static void refuse(struct order *order, struct message *message, int64_t number)
{
	if (number > 0)
		(void)open_claims_hold(&order->open_claims, number);
	else if (message->seq < order->bounds.refused_seq)
		order->bounds.refused_seq = message->seq;
	log_error("message_not_held", LOG_STR("event_id", message->event_id),
		LOG_STR("why", "out of memory"),
		LOG_STR("next",
			"its row stays claimed until this instance is restarted or rescued"));
	admission_release(order->context->options.admission, 1, message->bytes);
	message_free(message);
}

static struct entry *entry_new(
	struct order *order, struct message *message, enum ordering ordering, bool born)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (entry == NULL)
		return NULL;
	entry->message = message;
	entry->key = (struct entry_key){ message->seq, message->delivery_count };
	entry->ordering = ordering;
	entry->state = ENTRY_QUEUED;
	entry->born = born;
	HASH_ADD_BYHASHVALUE(
		hh, order->entries, key, sizeof(entry->key), hash_of(message->seq), entry);
	if (entry->hh.tbl == NULL) {
		free(entry);
		return NULL;
	}
	if (born)
		TAILQ_INSERT_TAIL(&order->born, entry, born_link);
	order->entry_count++;
	if (born && message->seq > order->bounds.max_seq)
		order->bounds.max_seq = message->seq;
	return entry;
}

/* Counts the events of its verdict, instead of those that were counted before. */
static void count_events(struct order *order, struct entry *entry)
{
	size_t bytes = entry->verdict.emit.length;

	order->emit_bytes += bytes - entry->emit_bytes;
	if (entry->queue != NULL)
		entry->queue->emit_bytes += bytes - entry->emit_bytes;
	entry->emit_bytes = bytes;
}

bool order_is_full(const struct order *order, const struct handler_queue *queue)
{
	return order->emit_bytes >= EMIT_BYTES_MOST && queue != NULL &&
	       queue->emit_bytes * HASH_COUNT(order->queues.by_name) >= EMIT_BYTES_MOST;
}

static void entry_free(struct order *order, struct entry *entry)
{
	order->emit_bytes -= entry->emit_bytes;
	HASH_DEL(order->entries, entry);
	if (entry->born)
		TAILQ_REMOVE(&order->born, entry, born_link);
	open_claims_release(&order->open_claims, entry->claim);
	order->entry_count--;
	handler_queue_assign(&order->queues, entry, NULL);
	admission_release(order->context->options.admission, 1, entry->message->bytes);
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
		entry_unreserve(next);
		/* While its crash count is raised it stays RESERVED. entry_requeue() follows then. */
		if (!next->raising)
			lanes_set_state(next, ENTRY_QUEUED);
		return true;
	}
	if (next->state != ENTRY_READY)
		return false;
	handler_queue_remove(next);
	lanes_set_state(next, ENTRY_QUEUED);
	return true;
}

/* A message has arrived behind one that a handler says it has completed: the settle that reads this does not wait, unless
 * the message would wait behind others of the handler. */
static void hurry_settled(struct order *order, const struct entry *behind)
{
	const struct entry *before = TAILQ_PREV(behind, entry_list, lane_link);

	if (before == NULL || before->state != ENTRY_SETTLING || before->end != END_SETTLED ||
		handler_queue_has_backlog(behind->queue))
		return;
	order->verdicts.urgent |= order->verdicts.count > 0;
	context_request_round(order->context);
}

/* Starts the entry that lanes_next() or lanes_leave() has given. */
static void start(struct order *order, struct entry *next)
{
	if (next == NULL)
		return;
	if (lanes_must_park(next))
		entry_park(order, next);
	else
		entry_ready(order, next);
}

void entry_admit(struct order *order, struct message *message, size_t stream,
	enum entry_origin origin, int64_t number)
{
	struct admission_stream where = admission_get(order->context->options.admission, stream);
	enum lane_arrival arrival = ADMIT_PARK;
	bool born = origin == ENTRY_BORN || origin == ENTRY_BORN_ORDER_UNKNOWN;
	bool order_unknown =
		origin == ENTRY_BORN_ORDER_UNKNOWN || origin == ENTRY_CLAIMED_ORDER_UNKNOWN;
	struct entry *entry = entry_new(order, message, where.ordering, born);

	if (entry == NULL) {
		refuse(order, message, number);
		return;
	}
	entry->stream = stream;
	entry->claim = number == 0 ? NULL : open_claims_hold(&order->open_claims, number);
	assign_handler(order, entry);
	if (lanes_admit(&order->lanes, entry, &arrival, NULL) != 0 ||
		(order_unknown && entry->lane != NULL))
		arrival = ADMIT_PARK;
	/* The entry is in its lane also when it is returned at once. If the partition is assigned to this instance
	 * again before the row is back in the table, later messages of the key must wait for it. */
	if (context_is_stopping(order->context) || !where.assigned || where.paused)
		entry_return(order, entry);
	else if (arrival == ADMIT_PARK)
		entry_park(order, entry);
	else if (arrival == ADMIT_HEAD || recall_next_of_lane(entry))
		entry_ready(order, entry);
	else if (entry->lane != NULL) { /* a lower offset may have arrived while the lane waited */
		start(order, lanes_next(&order->lanes, entry->lane));
		hurry_settled(order, entry);
	}
}

void entry_ready(struct order *order, struct entry *entry)
{
	if (context_is_stopping(order->context)) {
		entry_return(order, entry);
		return;
	}
	lanes_set_state(entry, ENTRY_QUEUED);
	assign_handler(order, entry);
	if (entry->queue == NULL) {
		entry_park(order, entry);
		return;
	}
	lanes_set_state(entry, ENTRY_READY);
	handler_queue_push(entry);
	context_request_round(order->context);
}

struct entry *entry_next_in_batch(struct order *order, struct entry *entry, size_t before)
{
	struct entry *next = entry->lane == NULL ? NULL : TAILQ_NEXT(entry, lane_link);

	if (next == NULL || next->state != ENTRY_QUEUED || next->message->suspect ||
		order->lanes.rules.wait_for_commit ||
		entry->lane->unsettled_count + before >= order->lanes.rules.max_unsettled ||
		lanes_must_park(next))
		return NULL;
	assign_handler(order, next); /* subscriptions may have changed since it arrived */
	return next->queue == entry->queue ? next : NULL;
}

static void leave_queue(struct entry *entry)
{
	if (entry->state == ENTRY_READY)
		handler_queue_remove(entry);
}

void entry_park(struct order *order, struct entry *entry)
{
	leave_queue(entry);
	retry_policy_park(entry);
	entry_settle(order, entry);
}

void entry_evict(struct order *order, struct entry *entry)
{
	leave_queue(entry);
	lanes_set_state(entry, ENTRY_QUEUED);
	handler_queue_assign(&order->queues, entry, NULL);
	entry_park(order, entry);
}

void entry_return(struct order *order, struct entry *entry)
{
	leave_queue(entry);
	retry_policy_return(entry);
	entry_settle(order, entry);
}

void entry_unreserve(struct entry *entry)
{
	struct reservation *reservation = entry->reservation;
	int64_t now_ms;

	if (reservation == NULL)
		return;
	now_ms = clock_now_ms();
	reservation->entry = NULL;
	reservation->next_ms = now_ms + (now_ms - reservation->since_ms);
	entry->reservation = NULL;
}

void entry_requeue(struct order *order, struct entry *entry)
{
	lanes_set_state(entry, ENTRY_QUEUED);
	if (context_is_stopping(order->context) || !order_may_deliver(order, entry->stream))
		entry_return(order, entry);
	else if (lanes_must_park(entry))
		entry_park(order, entry);
	else if (entry->lane == NULL)
		entry_ready(order, entry);
	else
		start(order, lanes_next(&order->lanes, entry->lane));
}

/* The row of a retry or of a returned message can be claimed only after the settle, and the new owner of a revoked
 * partition waits for the verdicts of the deliveries that it found. */
static bool is_waited_for(const struct entry *entry)
{
	return (entry->end != END_DONE && entry->end != END_SETTLED) ||
	       entry->delivery.bound_ms != 0;
}

static void count_verdict(struct order *order, const struct entry *entry)
{
	struct verdict_list *verdicts = &order->verdicts;

	if (verdicts->count++ == 0)
		verdicts->since_ms = clock_now_ms();
	verdicts->added++;
	verdicts->prompt |= is_waited_for(entry);
	if (entry->lane != NULL) {
		const struct entry *next = TAILQ_NEXT(entry, lane_link);
		bool stops = !entry->in_lane.answered && next != NULL;
		bool delays = stops && !handler_queue_has_backlog(next->queue);

		verdicts->urgent |= (delays && entry->end == END_SETTLED) ||
				    lanes_is_half_unsettled(&order->lanes, entry->lane);
		verdicts->prompt |= delays;
		verdicts->stopping += stops;
	}
	context_request_round(order->context);
}

static void add_verdict(struct order *order, struct entry *entry)
{
	TAILQ_INSERT_TAIL(&order->verdicts.entries, entry, link);
	count_verdict(order, entry);
}

void entry_defer(struct order *order, struct entry *entry)
{
	entry->settling.deferred = true;
	order->verdicts.deferred++;
	/* One key whose row is locked or refused must not use up max_in_flight. The limit of its unsettled messages
	 * holds. */
	if (entry->in_flight)
		handler_queue_end_flight(&order->queues, entry);
}

/* Passes a deferred verdict to the settler after all. The list may have later verdicts of the lane, which would have to wait
 * for another settle if they came first. */
static void resume_verdict(struct order *order, struct entry *entry)
{
	entry->settling.deferred = false;
	order->verdicts.deferred--;
	TAILQ_INSERT_HEAD(&order->verdicts.entries, entry, link);
	count_verdict(order, entry);
}

/* The deferred verdicts of a lane from this one on, the last one first, because each goes to the head of the list. */
static void resume_run(struct order *order, struct entry *first)
{
	struct entry *last = NULL;

	for (struct entry *at = first; at != NULL && at->settling.deferred;
		at = TAILQ_NEXT(at, in_lane.unsettled_link))
		last = at;
	for (struct entry *at = last; at != NULL;
		at = at == first ? NULL : TAILQ_PREV(at, entry_list, in_lane.unsettled_link))
		resume_verdict(order, at);
}

/* Claims of retries need this half. */
static bool is_half_of_memory_free(const struct order *order)
{
	size_t count;
	size_t bytes;
	size_t bytes_free;

	admission_usage(order->context->options.admission, &count, &bytes, &bytes_free);
	return count <= (size_t)order->context->options.config->inbox.max_claimed / 2 &&
	       bytes <= bytes_free;
}

/* True when the entry comes back soon, and the entries behind it can wait in memory. Not with `ordering: partition`:
 * claims of due rows leave out a stream that has messages in memory. */
static bool is_short_retry(const struct order *order, const struct entry *entry)
{
	return entry->ordering == ORDERING_KEY && entry->end != END_RETURNED &&
	       entry->verdict.outcome == SETTLE_WAITING &&
	       entry->verdict.delay_ms <= SHORT_RETRY_MS && !context_is_stopping(order->context) &&
	       order_may_deliver(order, entry->stream) && is_half_of_memory_free(order);
}

/*
 * The entry goes back to the table, for a retry or because it is parked. For a short retry, the first messages behind
 * it stay in memory, as many as a claim can bring: this saves the updates of their rows. All other messages behind it
 * go back too, because they could only wait and use up the budget. They are parked: a claim of the lane takes the whole
 * run when the first row is due. If the first row is returned without a delay, they are returned as waiting.
 */
static void follow_outside(struct order *order, struct entry *entry)
{
	struct entry *next = TAILQ_NEXT(entry, lane_link);
	size_t stay = 0;

	if (is_short_retry(order, entry)) {
		entry->in_lane.retry_ms = entry->verdict.delay_ms + RETRY_GRACE_MS;
		stay = order->lanes.rules.claim;
	}
	for (; next != NULL; next = TAILQ_NEXT(next, lane_link)) {
		if (next->state != ENTRY_QUEUED)
			continue;
		if (stay > 0) {
			stay--;
			continue;
		}
		if (entry->end == END_RETURNED && entry->verdict.outcome == SETTLE_WAITING &&
			entry->verdict.delay_ms == 0)
			retry_policy_return(next);
		else
			retry_policy_park(next);
		lanes_settling(&order->lanes, next);
		add_verdict(order, next);
	}
}

void entry_settle(struct order *order, struct entry *entry)
{
	bool outside;

	tracing_delivered(order, entry);
	if (entry->in_lane.voided && entry->end == END_DONE)
		retry_policy_return(entry);
	count_events(order, entry);
	outside = entry_is_outgoing(entry);
	lanes_settling(&order->lanes, entry);
	if (entry->end == END_RETRY)
		FAULT_POINT("before_retry");
	if (outside)
		admission_dirty(order->context->options.admission, entry->stream);
	if (outside && entry->lane != NULL)
		follow_outside(order, entry);
	add_verdict(order, entry);
	if (entry->in_lane.answered)
		start(order, lanes_next(&order->lanes, entry->lane));
}

/* A message that was done is delivered again, here or elsewhere: its claim is lost, or its events are refused. The
 * messages of its lane that were delivered after it must come again as well (rule R25). If the next message is READY,
 * it is not delivered now. */
static void void_followers(struct order *order, const struct entry *first)
{
	struct lane *lane = first->lane;
	struct entry *at = TAILQ_NEXT(first, in_lane.unsettled_link);
	struct entry *next;

	for (; at != NULL; at = next) {
		next = TAILQ_NEXT(at, in_lane.unsettled_link);
		if (at->settling.job != NULL || at->end != END_DONE)
			continue;
		retry_policy_return(at);
		count_events(order, at);
		lanes_take_back(at);
		admission_dirty(order->context->options.admission, at->stream);
		if (at->settling.deferred)
			resume_verdict(order, at);
		follow_outside(order, at);
	}
	TAILQ_FOREACH (at, &lane->entries, lane_link) {
		at->in_lane.voided |= at->state == ENTRY_OPEN || at->state == ENTRY_RESERVED;
		if (at->state == ENTRY_READY) {
			handler_queue_remove(at);
			lanes_set_state(at, ENTRY_QUEUED);
		}
	}
}

void entry_refuse_events(struct order *order, struct entry *entry, const char *why)
{
	struct retry_rules rules = order_rules(order, entry->message->consumer);

	retry_policy_unemitted(&rules, entry, why == NULL ? "its events cannot be stored" : why);
	count_events(order, entry);
	if (entry->verdict.outcome == SETTLE_WAITING) {
		admission_dirty(order->context->options.admission, entry->stream);
		if (entry->lane != NULL) {
			lanes_take_back_failed(entry);
			void_followers(order, entry);
			follow_outside(order, entry);
		}
	}
	add_verdict(order, entry);
}

void entries_doubt_completions(struct order *order, struct entry *stuck)
{
	struct entry *at = stuck;

	if (!stuck->in_lane.unsettled ||
		clock_now_ms() - stuck->in_lane.since_ms < order->lanes.rules.fast_ms)
		return;
	for (; at != NULL; at = TAILQ_NEXT(at, in_lane.unsettled_link)) {
		if (at->end != END_SETTLED || at->in_lane.outgoing)
			continue;
		admission_dirty(order->context->options.admission, at->stream);
		lanes_take_back_failed(at);
		follow_outside(order, at);
	}
}

static void count_end(struct order *order, const struct entry *entry, enum settle_status status)
{
	enum entry_end end = entry->end;
	int64_t born_ms = entry->message->timestamp_ms;
	int64_t pg_now = clock_now_ms() + atomic_load(order->context->options.pg_offset_ms);

	if (status == SETTLE_LOST) {
		metric_add(order->claim_lost, 1);
		return;
	}
	if (status == SETTLE_COMPLETED && end != END_DONE && end != END_RETURNED)
		end = END_SETTLED; /* inbox.complete() committed before the timeout or the lost connection */
	else if (end == END_SETTLED)
		end = entry->verdict.outcome == SETTLE_DEAD ? END_DEAD : END_RETRY;
	if (end == END_RETURNED || entry->queue == NULL)
		return;
	metric_add(entry->queue->ended[end], 1);
	/* The estimate of the database's clock may be some milliseconds behind, and the clock of a producer ahead. */
	if ((end == END_DONE || end == END_SETTLED) && born_ms >= 0)
		metric_observe(entry->queue->end_to_end,
			pg_now > born_ms ? (double)(pg_now - born_ms) / 1000.0 : 0);
}

void entry_finish(struct order *order, struct entry *entry, enum settle_status status)
{
	/* The message was finished, so that later ones of its lane may have been delivered. With a lost claim its row may
	 * wait in the table. */
	bool broken =
		status == SETTLE_LOST && entry->in_lane.unsettled &&
		(entry->end == END_DONE || entry->end == END_DEAD || entry->end == END_SETTLED);
	/* The same holds for a return whose claim is lost: perhaps an earlier try of it was committed, and its answer
	 * was lost. */
	bool returned = status != SETTLE_COMPLETED && entry->verdict.outcome >= SETTLE_WAITING;
	bool outside = broken || returned;
	bool waiting = returned && entry->verdict.outcome == SETTLE_WAITING;
	struct entry *after = NULL; /* the verdict behind it in its lane */
	struct entry *next;

	count_end(order, entry, status);
	if (entry->in_flight) {
		handler_queue_end_flight(&order->queues, entry);
		context_request_round(order->context);
	}
	if (outside)
		admission_dirty(order->context->options.admission, entry->stream);
	/* It was not completed, or its claim is lost. */
	if (returned && entry->end == END_SETTLED && entry->lane != NULL &&
		!entry->in_lane.outgoing)
		follow_outside(order, entry);
	if (entry->end == END_RETRY)
		FAULT_POINT("after_retry");
	if (waiting && !context_is_stopping(order->context)) {
		int64_t due_ms = clock_now_ms() + entry->verdict.delay_ms + 1;

		if (due_ms < order->retry_due_at_ms)
			order->retry_due_at_ms = due_ms; /* the claimer looks for due rows then */
	}
	if (broken)
		void_followers(order, entry);
	if (entry->in_lane.unsettled && lanes_verdict_before(entry) == NULL)
		after = TAILQ_NEXT(entry, in_lane.unsettled_link);
	next = lanes_leave(&order->lanes, entry, outside, waiting);
	entry_free(order, entry);
	resume_run(order, after);
	start(order, next);
}

void entries_end_retries(struct order *order, int64_t now_ms)
{
	struct entry *next = NULL;

	while (lanes_end_retry(&order->lanes, now_ms, &next))
		start(order, next);
}

static bool is_undelivered(const struct entry *entry)
{
	return entry->state == ENTRY_QUEUED || entry->state == ENTRY_READY;
}

void entries_return_undelivered(struct order *order, bool all)
{
	struct entry *entry;
	struct entry *next;

	HASH_ITER (hh, order->entries, entry, next) {
		if (is_undelivered(entry) && (all || !order_may_deliver(order, entry->stream)))
			entry_return(order, entry);
	}
}

int order_init(struct order *order, struct context *context, int64_t first_low_seq, struct err *err)
{
	const struct config *config = context->options.config;
	struct metrics *metrics = context->options.metrics;
	const struct lane_rules rules = {
		.wait_for_commit = config->inbox.next_after == NEXT_AFTER_COMMIT,
		.max_unsettled = (size_t)config->inbox.max_unsettled_per_key,
		.fast_ms = LANE_FAST_MS,
		.claim = (size_t)config->worker.claim_batch,
	};

	order->context = context;
	TAILQ_INIT(&order->born);
	TAILQ_INIT(&order->verdicts.entries);
	lanes_init(&order->lanes, &rules);
	order_set_rules(order, config);
	open_claims_init(&order->open_claims);
	order->retry_due_at_ms = INT64_MAX;
	(void)pthread_mutex_init(&order->bounds.lock, NULL);
	order->bounds.max_seq = first_low_seq - 1;
	order->bounds.refused_seq = INT64_MAX;
	entries_publish_bounds(order);
	order->claim_lost = metrics_get(metrics, METER_CLAIM_LOST, NULL, NULL);
	return routing_new(&order->routing, err);
}

void order_set_rules(struct order *order, const struct config *config)
{
	size_t claim = (size_t)config->worker.claim_batch;
	size_t part = (size_t)config->inbox.max_claimed / LANE_PART;

	order->lanes.rules.depth = part > claim ? part : claim;
	order->rules = (struct retry_rules){
		.max_attempts = config->retry.max_attempts,
		.backoff_ms = config->retry.backoff,
		.backoff_max_ms = config->retry.backoff_max,
		.max_crashes = config->retry.max_crashes,
	};
}

const struct consumer_rules *order_consumer_rules(const struct order *order, const char *consumer)
{
	const struct config *config = order->context->options.config;
	const struct consumers *names = order->context->options.names;
	const struct consumer_rules *rules = config_consumer_rules(config, consumer);

	for (size_t i = 0; rules == NULL && names != NULL && i < names->rename_count; i++) {
		if (strcmp(names->renames[i].to, consumer) == 0)
			rules = config_consumer_rules(config, names->renames[i].from);
	}
	return rules;
}

struct retry_rules order_rules(const struct order *order, const char *consumer)
{
	const struct consumer_rules *own = order_consumer_rules(order, consumer);
	struct retry_rules rules = order->rules;

	if (own != NULL) {
		rules.max_attempts = own->max_attempts;
		rules.backoff_ms = own->backoff;
		rules.backoff_max_ms = own->backoff_max;
	}
	return rules;
}

void order_fini(struct order *order)
{
	struct entry *entry;
	struct entry *next;

	HASH_ITER (hh, order->entries, entry, next)
		entry_free(order, entry);
	lanes_fini(&order->lanes);
	key_holds_fini(&order->key_holds);
	open_claims_fini(&order->open_claims);
	routing_free(order->routing);
	(void)pthread_mutex_destroy(&order->bounds.lock);
}
