/*
 * Opens entries on a session and writes the line that delivers them: `deliver` for one message, `deliver_batch` for
 * several. Keeps the open entries of a session in the order of their deadlines, and limits deadlines after a
 * revocation. A delivery that cannot be written for lack of memory goes back to the table; it spends no attempt.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/numbers.h"
#include "dispatch/core.h"

#define CACHE_LINE    ((size_t)64)
#define MESSAGE_BYTES ((size_t)768) /* most are not larger, with all they point to */

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

/* Inserts by deadline, from the tail: all deliveries of a session have the same timeout. */
static void insert_by_deadline(struct session *session, struct entry *entry)
{
	struct entry *at;

	TAILQ_FOREACH_REVERSE(at, &session->open, entry_list, link)
	{
		if (at->deadline_ms <= entry->deadline_ms)
			break;
	}
	if (at == NULL)
		TAILQ_INSERT_HEAD(&session->open, entry, link);
	else
		TAILQ_INSERT_AFTER(&session->open, at, entry, link);
}

void delivery_extend(struct entry *entry, int64_t deadline_ms)
{
	entry->cut = entry->bound_ms != 0 && deadline_ms > entry->bound_ms;
	TAILQ_REMOVE(&entry->session->open, entry, link);
	entry->deadline_ms = entry->cut ? entry->bound_ms : deadline_ms;
	insert_by_deadline(entry->session, entry);
}

void delivery_bound(struct dispatch *dispatch, size_t partition)
{
	int64_t now_ms = clock_now_ms();
	struct entry *entry;

	for (entry = dispatch->entries; entry != NULL; entry = entry->hh.next) {
		if (entry->state != ENTRY_OPEN || entry->partition != partition ||
			entry->bound_ms != 0)
			continue;
		entry->bound_ms = now_ms + entry->session->timeout_ms;
		delivery_extend(entry, entry->deadline_ms);
	}
}

static void open_entry(struct session *session, struct entry *entry)
{
	struct dispatch *dispatch = session->dispatch;
	struct handler *handler = session->handler;

	entry->state = ENTRY_OPEN;
	entry->session = session;
	entry->bound_ms = 0;
	entry->cut = false;
	entry->opened_us = clock_now_us();
	entry->deadline_ms = entry->opened_us / 1000 + session->timeout_ms;
	insert_by_deadline(session, entry);
	session->open_count++;
	if (entry->in_flight)
		return;
	entry->in_flight = true;
	dispatch->in_flight++;
	handler->in_flight++;
	metric_set(handler->in_flight_gauge, (double)handler->in_flight);
}

void entry_id(const struct entry *entry, char out[ENTRY_ID_BYTES])
{
	*out++ = 'd';
	out = digits_put(out, entry->message->seq);
	*out++ = '.';
	out = digits_put(out, entry->message->delivery_count);
	*out = '\0';
}

struct head_texts {
	char id[ENTRY_ID_BYTES];
	char claim[sizeof("..") + (size_t)3 * DIGITS_MAX];
};

static void add_claim(char *out, const struct message *message, int32_t instance)
{
	out = digits_put(out, message->seq);
	*out++ = '.';
	out = digits_put(out, message->delivery_count);
	*out++ = '.';
	out = digits_put(out, instance);
	*out = '\0';
}

static struct delivery_head head_of(
	const struct dispatch *dispatch, const struct entry *entry, struct head_texts *texts)
{
	const struct message *message = entry->message;

	entry_id(entry, texts->id);
	add_claim(texts->claim, message, dispatch->options.instance);
	return (struct delivery_head){
		.id = texts->id,
		.claim = texts->claim,
		.seq = message->seq,
		.attempt = message->retry_count + 1,
		.max_attempts = dispatch->rules.max_attempts,
		.deadline_unix_ms =
			entry->deadline_ms + atomic_load(dispatch->options.pg_offset_ms),
		.replay = message->replay,
	};
}

/* Writes the event of one message as JSON members into dispatch->rendered. False: no memory. */
static bool render(struct dispatch *dispatch, const struct entry *entry)
{
	buf_reset(&dispatch->rendered);
	return event_render(dispatch->renderer, entry->message, &dispatch->rendered, NULL) == 0 &&
	       buf_ok(&dispatch->rendered);
}

static struct call *call_new(struct session *session)
{
	struct dispatch *dispatch = session->dispatch;
	struct call *call = calloc(1, sizeof(*call));

	if (call == NULL)
		return NULL;
	TAILQ_INIT(&call->entries);
	call->session = session;
	(void)snprintf(
		call->id, sizeof(call->id), "b%llu", (unsigned long long)++dispatch->next_call);
	HASH_ADD_STR(dispatch->calls, id, call);
	if (call->hh.tbl == NULL) {
		free(call);
		return NULL;
	}
	return call;
}

/* There was no memory for the line. Nothing was sent, so the message goes back to the table. */
static void fail_delivery(struct dispatch *dispatch, struct entry *entry)
{
	log_error("delivery_not_written", LOG_STR("event_id", entry->message->event_id),
		LOG_STR("why", "out of memory"),
		LOG_STR("next", "the message goes back to waiting"));
	entry_return(dispatch, entry);
}

static void deliver_one(struct session *session, struct entry *entry)
{
	struct dispatch *dispatch = session->dispatch;
	struct head_texts texts;
	struct delivery_head head;

	warm_next(TAILQ_FIRST(&session->handler->ready));
	open_entry(session, entry);
	head = head_of(dispatch, entry, &texts);
	buf_reset(&dispatch->line);
	if (render(dispatch, entry))
		protocol_add_deliver(&dispatch->line, &head,
			(struct bytes){ dispatch->rendered.data, dispatch->rendered.length });
	if (dispatch->line.length == 0 || !buf_ok(&dispatch->line)) {
		fail_delivery(dispatch, entry);
		return;
	}
	session_send(session, &dispatch->line);
}

static void deliver_batch(struct session *session, struct entry **entries, size_t count)
{
	struct dispatch *dispatch = session->dispatch;
	struct call *call = call_new(session);
	struct head_texts texts;
	bool ok = call != NULL;

	buf_reset(&dispatch->line);
	if (ok)
		protocol_begin_batch(&dispatch->line, call->id);
	for (size_t i = 0; i < count; i++) {
		struct delivery_head head;

		warm_next(i + 1 < count ? entries[i + 1] : NULL);
		open_entry(session, entries[i]);
		if (!ok)
			continue;
		TAILQ_INSERT_TAIL(&call->entries, entries[i], call_link);
		entries[i]->call = call;
		head = head_of(dispatch, entries[i], &texts);
		ok = render(dispatch, entries[i]);
		if (ok)
			protocol_add_entry(&dispatch->line, i == 0, &head,
				(struct bytes){
					dispatch->rendered.data, dispatch->rendered.length });
	}
	if (ok)
		protocol_end_batch(&dispatch->line);
	if (ok && buf_ok(&dispatch->line)) {
		session_send(session, &dispatch->line);
		return;
	}
	for (size_t i = 0; i < count; i++)
		fail_delivery(dispatch, entries[i]);
}

void delivery_send(struct session *session, struct entry **entries, size_t count)
{
	FAULT_POINT("before_deliver");
	if (session->batch_max > 1)
		deliver_batch(session, entries, count);
	else
		deliver_one(session, entries[0]);
}
