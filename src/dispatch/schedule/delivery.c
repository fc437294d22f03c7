/*
 * Opens entries on a connection and writes the line that delivers them: `deliver` for one message, `deliver_batch` for
 * several. A SQL handler gets a call without a line. Keeps the open entries of a connection in the order of their deadlines, limits deadlines after a
 * revocation, and closes deliveries. A delivery that cannot be written for lack of memory goes back to the table; it spends no attempt.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/text/digest.h"
#include "base/text/numbers.h"
#include "base/time/clock.h"
#include "dispatch/schedule/ordered_batch.h"
#include "json/text.h"

#define CACHE_LINE        ((size_t)64)
#define MESSAGE_BYTES     ((size_t)768) /* most are not larger, with all they point to */
#define NO_MEMORY_WAIT_MS 1000

/* The ingest thread wrote the messages on another CPU, and a batch of them does not fit into the nearest caches. To
 * read one then costs half a microsecond. So the next message is prefetched while this one is written. A prefetch
 * is a hint only: an address behind the message does no harm. */
static void warm_next(const struct entry *next)
{
	if (next == NULL)
		return;
	for (size_t at = 0; at < MESSAGE_BYTES; at += CACHE_LINE)
		__builtin_prefetch((const char *)next->message + at);
}

/* Inserts by deadline, from the tail: all deliveries of a connection have the same timeout. */
static void insert_by_deadline(struct connection *connection, struct entry *entry)
{
	struct entry *at;

	TAILQ_FOREACH_REVERSE(at, &connection->open, entry_list, link)
	{
		if (at->delivery.deadline_ms <= entry->delivery.deadline_ms)
			break;
	}
	if (at == NULL)
		TAILQ_INSERT_HEAD(&connection->open, entry, link);
	else
		TAILQ_INSERT_AFTER(&connection->open, at, entry, link);
}

void delivery_extend(struct entry *entry, int64_t deadline_ms)
{
	entry->delivery.cut =
		entry->delivery.bound_ms != 0 && deadline_ms > entry->delivery.bound_ms;
	TAILQ_REMOVE(&entry->delivery.connection->open, entry, link);
	entry->delivery.deadline_ms = entry->delivery.cut ? entry->delivery.bound_ms : deadline_ms;
	insert_by_deadline(entry->delivery.connection, entry);
}

void deliveries_bound(struct schedule *schedule)
{
	struct admission *admission = schedule->context->options.admission;
	int64_t now_ms = clock_now_ms();
	struct entry *entry;

	for (entry = schedule->order->entries; entry != NULL; entry = entry->hh.next) {
		if (entry->state != ENTRY_OPEN || entry->delivery.bound_ms != 0 ||
			admission_get(admission, entry->stream).assigned)
			continue;
		entry->delivery.bound_ms = now_ms + entry->delivery.connection->timeout_ms;
		delivery_extend(entry, entry->delivery.deadline_ms);
	}
}

static void open_entry(
	struct schedule *schedule, struct connection *connection, struct entry *entry)
{
	lanes_set_state(entry, ENTRY_OPEN);
	entry->delivery.connection = connection;
	entry->delivery.bound_ms = 0;
	entry->delivery.cut = false;
	entry->delivery.opened_us = clock_now_us();
	entry->delivery.deadline_ms = entry->delivery.opened_us / 1000 + connection->timeout_ms;
	insert_by_deadline(connection, entry);
	connection->open_count++;
	handler_queue_begin_flight(&schedule->order->queues, entry);
}

static void leave_call(struct schedule *schedule, struct entry *entry)
{
	struct call *call = entry->delivery.call;

	if (call == NULL)
		return;
	TAILQ_REMOVE(&call->entries, entry, delivery.call_link);
	entry->delivery.call = NULL;
	if (!TAILQ_EMPTY(&call->entries))
		return;
	HASH_DEL(schedule->calls, call);
	free(call);
}

void delivery_close(struct schedule *schedule, struct entry *entry)
{
	struct connection *connection = entry->delivery.connection;

	leave_call(schedule, entry);
	TAILQ_REMOVE(&connection->open, entry, link);
	connection->open_count--;
	entry->delivery.connection = NULL;
	entry_unreserve(entry);
	metric_observe(connection->group->seconds,
		(double)(clock_now_us() - entry->delivery.opened_us) / 1000000.0);
	if (connection->reservation.entry != NULL && connection->open_count == 0)
		schedule->order->suspects_due = true;
	context_request_round(schedule->context);
}

void delivery_skip(struct schedule *schedule, struct entry *entry, const struct entry *first)
{
	delivery_close(schedule, entry);
	retry_policy_follow(entry, first);
	entry_settle(schedule->order, entry);
}

void delivery_id(const struct entry *entry, char out[DELIVERY_ID_BYTES])
{
	*out++ = 'd';
	out = digits_put(out, entry->message->seq);
	*out++ = '.';
	out = digits_put(out, entry->message->delivery_count);
	*out = '\0';
}

void delivery_cancel(struct schedule *schedule, const struct entry *entry, const char *reason)
{
	char id[DELIVERY_ID_BYTES];

	if (entry->delivery.connection->bev == NULL)
		return; /* its transaction ends by its own limits, and its result is not used */
	delivery_id(entry, id);
	buf_reset(&schedule->line);
	protocol_add_cancel(&schedule->line, id, reason);
	connection_send(entry->delivery.connection, &schedule->line);
}

void deliveries_cancel_all(struct schedule *schedule, const char *reason)
{
	struct handler_queue *queue;
	struct connection *connection;
	struct entry *entry;

	for (queue = schedule->order->queues.by_name; queue != NULL; queue = queue->hh.next) {
		TAILQ_FOREACH (connection, &queue->group->connections, link) {
			while ((entry = TAILQ_FIRST(&connection->open)) != NULL) {
				delivery_cancel(schedule, entry, reason);
				delivery_close(schedule, entry);
				entry_return(schedule->order, entry);
			}
		}
	}
}

void deliveries_lose(struct schedule *schedule, struct connection *connection)
{
	struct retry_rules rules;
	struct entry *entry;
	struct entry *behind;
	struct entry *next;

	while ((entry = TAILQ_FIRST(&connection->open)) != NULL) {
		entry = ordered_batch_first(entry);
		behind = ordered_batch_next(entry);
		delivery_close(schedule, entry);
		rules = order_rules(schedule->order, entry->message->consumer);
		retry_policy_lost(&rules, entry);
		entry_settle(schedule->order, entry);
		for (; behind != NULL; behind = next) {
			next = ordered_batch_next(behind);
			delivery_skip(schedule, behind, entry);
		}
	}
}

#define TAG_BYTES   12
#define TAG_LENGTH  16 /* in base64url */
#define NAME_LENGTH ((PROTOCOL_MAX_NAME * 4 + 2) / 3)
#define CLAIM_BYTES (sizeof("....") + (size_t)3 * DIGITS_MAX + NAME_LENGTH + TAG_LENGTH)

struct head_texts {
	char id[DELIVERY_ID_BYTES];
	/* Both are one text for the hash. */
	struct {
		struct claim_secret secret;
		char claim[CLAIM_BYTES];
	} signed_text;
};

/* inbox.parse_claim() in the schema says what a claim is made of, and checks it. */
static void add_claim(
	const struct schedule *schedule, const struct entry *entry, struct head_texts *texts)
{
	const struct dispatch_options *options = &schedule->context->options;
	const char *start = (const char *)&texts->signed_text;
	unsigned char digest[32];
	char *end = digits_put(texts->signed_text.claim, entry->message->seq);

	texts->signed_text.secret = options->claim_secret;
	*end++ = '.';
	end = digits_put(end, entry->message->delivery_count);
	*end++ = '.';
	end = digits_put(end, options->instance);
	*end++ = '.';
	end = base64url_put(end, bytes_of(entry->queue->id.name));
	/* It fails only if libcrypto is broken. Then inbox.complete() refuses the claim. */
	(void)digester_sha256(
		schedule->digester, (struct bytes){ start, (size_t)(end - start) }, digest);
	*end++ = '.';
	end = base64url_put(end, (struct bytes){ digest, TAG_BYTES });
	*end = '\0';
}

static struct delivery_head head_of(
	const struct schedule *schedule, const struct entry *entry, struct head_texts *texts)
{
	const struct message *message = entry->message;

	delivery_id(entry, texts->id);
	add_claim(schedule, entry, texts);
	return (struct delivery_head){
		.id = texts->id,
		.claim = texts->signed_text.claim,
		.seq = message->seq,
		.attempt = message->retry_count + 1,
		.consumer = message->consumer,
		.max_attempts = order_rules(schedule->order, message->consumer).max_attempts,
		.deadline_unix_ms = entry->delivery.deadline_ms +
				    atomic_load(schedule->context->options.pg_offset_ms),
		.replay = message->replay,
	};
}

/* Writes the event of one message as JSON members into schedule->rendered. False: no memory. */
static bool render(struct schedule *schedule, const struct entry *entry)
{
	buf_reset(&schedule->rendered);
	return event_render(schedule->renderer, entry->message, &schedule->rendered, NULL) == 0 &&
	       buf_ok(&schedule->rendered);
}

static struct call *call_new(struct schedule *schedule, struct connection *connection)
{
	struct call *call = calloc(1, sizeof(*call));

	if (call == NULL)
		return NULL;
	TAILQ_INIT(&call->entries);
	call->connection = connection;
	(void)snprintf(
		call->id, sizeof(call->id), "b%llu", (unsigned long long)++schedule->next_call);
	HASH_ADD_STR(schedule->calls, id, call);
	if (call->hh.tbl == NULL) {
		free(call);
		return NULL;
	}
	return call;
}

/* There was no memory for the line or the call. Nothing was sent, so the message goes back to the table. It waits there, because it
 * would meet the same fault at once. */
static void fail_delivery(struct schedule *schedule, struct entry *entry)
{
	log_error("delivery_not_written", LOG_STR("event_id", entry->message->event_id),
		LOG_STR("why", "out of memory"),
		LOG_STR("next", "the message waits in the table for a second, and comes again"));
	delivery_close(schedule, entry);
	retry_policy_return(entry);
	entry->verdict.delay_ms = NO_MEMORY_WAIT_MS;
	entry_settle(schedule->order, entry);
}

void deliveries_fail(struct schedule *schedule, struct connection *connection)
{
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&connection->open)) != NULL)
		fail_delivery(schedule, entry);
}

static void deliver_one(
	struct schedule *schedule, struct connection *connection, struct entry *entry)
{
	struct head_texts texts;
	struct delivery_head head;

	warm_next(TAILQ_FIRST(&connection->group->queue.ready));
	open_entry(schedule, connection, entry);
	head = head_of(schedule, entry, &texts);
	buf_reset(&schedule->line);
	if (render(schedule, entry))
		protocol_add_deliver(&schedule->line, &head,
			(struct bytes){ schedule->rendered.data, schedule->rendered.length });
	if (schedule->line.length == 0 || !buf_ok(&schedule->line)) {
		fail_delivery(schedule, entry);
		return;
	}
	connection_send(connection, &schedule->line);
}

static void add_to_call(struct call *call, struct entry *entry)
{
	TAILQ_INSERT_TAIL(&call->entries, entry, delivery.call_link);
	entry->delivery.call = call;
}

/* For a SQL handler. Its session gives the call to a worker in the same round (sql_sessions.c). */
static void deliver_call(struct schedule *schedule, struct connection *connection,
	struct entry **entries, size_t count)
{
	struct call *call = call_new(schedule, connection);

	for (size_t i = 0; i < count; i++) {
		open_entry(schedule, connection, entries[i]);
		if (call != NULL)
			add_to_call(call, entries[i]);
		else
			fail_delivery(schedule, entries[i]);
	}
	connection->call = call;
}

static void deliver_batch(struct schedule *schedule, struct connection *connection,
	struct entry **entries, size_t count)
{
	struct call *call = call_new(schedule, connection);
	struct head_texts texts;
	bool ok = call != NULL;

	buf_reset(&schedule->line);
	if (ok)
		protocol_begin_batch(&schedule->line, call->id);
	for (size_t i = 0; i < count; i++) {
		struct delivery_head head;

		warm_next(i + 1 < count ? entries[i + 1] : NULL);
		open_entry(schedule, connection, entries[i]);
		if (!ok)
			continue;
		add_to_call(call, entries[i]);
		head = head_of(schedule, entries[i], &texts);
		ok = render(schedule, entries[i]);
		if (ok)
			protocol_add_entry(&schedule->line, i == 0, &head,
				(struct bytes){
					schedule->rendered.data, schedule->rendered.length });
	}
	if (ok)
		protocol_end_batch(&schedule->line);
	if (ok && buf_ok(&schedule->line)) {
		connection_send(connection, &schedule->line);
		return;
	}
	for (size_t i = 0; i < count; i++)
		fail_delivery(schedule, entries[i]);
}

void delivery_send(struct schedule *schedule, struct connection *connection, struct entry **entries,
	size_t count)
{
	FAULT_POINT("before_deliver");
	if (connection->bev == NULL)
		deliver_call(schedule, connection, entries, count);
	else if (connection->batch_max > 1)
		deliver_batch(schedule, connection, entries, count);
	else
		deliver_one(schedule, connection, entries[0]);
}
