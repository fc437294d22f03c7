/*
 * Executes the lines that handlers send: hello, answers, extend, window, drain, poke. Every line has one of three effects: a
 * reply or a verdict, an error reply, or the end of this connection. No line affects another connection.
 * hello.c checks the hello.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/faultpoint.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "dispatch/schedule/ordered_batch.h"
#include "dispatch/sessions/sessions.h"

#define BROKEN_LINES_MAX 10

/* A request has an id and gets a reply. A notification has none and gets no reply. */
static void reply_empty(struct session *session, struct bytes id)
{
	struct buf *line = &session->sessions->line;

	if (id.data == NULL)
		return;
	buf_reset(line);
	protocol_add_empty_reply(line, id);
	session_reply(session, line);
}

/* The open delivery of this session with the id "d9001.2", or NULL. The id must be written exactly as it was sent. */
static struct entry *find_delivery(struct session *session, const char *id)
{
	char *end = NULL;
	char exact[DELIVERY_ID_BYTES];
	struct entry *entry;
	long long seq;

	if (id[0] != 'd')
		return NULL;
	seq = strtoll(id + 1, &end, 10);
	if (*end != '.')
		return NULL;
	entry = entry_find(session->sessions->order, seq, (int)strtol(end + 1, NULL, 10));
	if (entry == NULL || entry->state != ENTRY_OPEN ||
		entry->delivery.connection != &session->connection)
		return NULL;
	delivery_id(entry, exact);
	return strcmp(id, exact) == 0 ? entry : NULL;
}

static void answer(struct session *session, struct entry *entry, const struct verdict *verdict)
{
	struct order *order = session->sessions->order;
	struct retry_rules rules = order_rules(order, entry->message->consumer);

	FAULT_POINT("after_answer");
	delivery_close(session->sessions->schedule, entry);
	session_check_drained(session);
	if (retry_policy_answer(&rules, entry, verdict, NULL) != 0)
		log_warn("verdict_text_lost", LOG_STR("event_id", entry->message->event_id),
			LOG_STR("why", "out of memory"),
			LOG_STR("next", "the verdict is stored without its texts"));
	entry_settle(order, entry);
}

/* One answer to a whole batch cannot emit: each of its messages would emit all events. */
static const struct verdict *without_events(const struct verdict *verdict)
{
	static const char why[] =
		"the answer to a batch emits in its entries: result.entries[].emit";
	static const struct verdict refusal = {
		.status = STATUS_RETRY,
		.delay_ms = -1,
		.reason = { why, sizeof(why) - 1 },
		.code = { "PROTOCOL", 8 },
	};

	return verdict->emit.data == NULL ? verdict : &refusal;
}

/* The verdict of an answer for one entry, or NULL. Most answers to a batch are in the order of the batch, so the search
 * starts at `guess`. */
static const struct verdict *verdict_for(
	const struct line *line, const struct entry *entry, size_t guess)
{
	char id[DELIVERY_ID_BYTES];
	size_t length;

	if (!line->batch_answer)
		return entry->delivery.call == NULL ? &line->verdicts[0]
						    : without_events(&line->verdicts[0]);
	delivery_id(entry, id);
	length = strlen(id);
	for (size_t i = 0; i < line->verdict_count; i++) {
		const struct verdict *verdict = &line->verdicts[(guess + i) % line->verdict_count];

		if (verdict->entry.length == length && memcmp(verdict->entry.data, id, length) == 0)
			return verdict;
	}
	return NULL;
}

/* Answers an entry that is behind `first` in an ordered batch. `first` was not finished (rule R26). */
static void answer_behind(struct session *session, const struct line *line, struct entry *entry,
	const struct entry *first, size_t guess)
{
	const struct verdict *verdict = verdict_for(line, entry, guess);

	switch (ordered_batch_behind(verdict, !line->batch_answer)) {
	case ORDERED_SKIPPED:
		delivery_skip(session->sessions->schedule, entry, first);
		session_check_drained(session);
		return;
	case ORDERED_VIOLATES:
		metric_add(session->sessions->order_violations, 1);
		break;
	case ORDERED_TRIED:
		break;
	}
	answer(session, entry, verdict);
}

/* Answers an entry of a batch. In an ordered batch also those that are behind it, if it was not finished. An entry
 * without a verdict is retried. Returns how many entries were answered. */
size_t requests_answer(
	struct session *session, const struct line *line, struct entry *first, size_t guess)
{
	static const struct verdict missing = {
		.status = STATUS_RETRY,
		.delay_ms = -1,
		.reason = { "the answer to the batch has no entry for it", 43 },
		.code = { "PROTOCOL", 8 },
	};
	const struct verdict *verdict = verdict_for(line, first, guess);
	struct entry *behind;
	struct entry *next;
	size_t count = 1;

	if (verdict == NULL)
		verdict = &missing;
	behind = ordered_batch_finishes(verdict) ? NULL : ordered_batch_next(first);
	answer(session, first, verdict);
	for (; behind != NULL; behind = next) {
		next = ordered_batch_next(behind);
		answer_behind(session, line, behind, first, guess + count++);
	}
	return count;
}

static bool answer_batch(struct session *session, const struct line *line)
{
	struct call *call = NULL;
	const struct entry *entry;
	size_t open = 0; /* the last answer frees the call */
	size_t answered = 0;

	HASH_FIND_STR(session->sessions->schedule->calls, line->delivery, call);
	if (call == NULL || call->connection != &session->connection)
		return false;
	TAILQ_FOREACH (entry, &call->entries, delivery.call_link)
		open++;
	while (answered < open)
		answered += requests_answer(session, line, TAILQ_FIRST(&call->entries), answered);
	return true;
}

static void on_answer(struct session *session, const struct line *line)
{
	struct entry *entry = find_delivery(session, line->delivery);

	if (entry != NULL && entry->delivery.call == NULL)
		(void)requests_answer(session, line, entry, 0);
	else if (!answer_batch(session, line))
		metric_add(session->sessions->unknown_answers, 1);
}

static void on_extend(struct session *session, const struct line *line)
{
	struct entry *entry = find_delivery(session, line->delivery);

	session->connection.extended_us = clock_now_us();
	if (entry != NULL) {
		delivery_extend(entry, clock_now_ms() + line->timeout_ms);
		reply_empty(session, line->id);
		return;
	}
	metric_add(session->sessions->unknown_answers, 1);
	if (line->id.data != NULL)
		session_reply_error(
			session, line->id, PROTOCOL_UNKNOWN_DELIVERY, "no such delivery is open");
}

static void on_window(struct session *session, const struct line *line)
{
	schedule_set_window(
		session->sessions->schedule, &session->connection, (size_t)line->max_in_flight);
	reply_empty(session, line->id);
	context_request_round(session->sessions->context);
}

static void on_drain(struct session *session, const struct line *line)
{
	if (session->drain_id.length > 0) {
		session_reply_error(
			session, line->id, PROTOCOL_INVALID_REQUEST, "drain was asked for already");
		return;
	}
	session->connection.draining = true;
	buf_reset(&session->drain_id);
	buf_add(&session->drain_id, line->id.data, line->id.length);
	suspects_release_of(session->sessions->schedule, &session->connection);
	session_check_drained(session);
}

/* Also before a hello: a service that only emits events is no handler. Its connection stays open while it pokes. */
static void on_poke(struct session *session, const struct line *line)
{
	struct wake *outbox = session->sessions->context->options.outbox;

	if (outbox != NULL)
		wake_poke(outbox);
	session->connected_ms = clock_now_ms();
	reply_empty(session, line->id);
}

/* A client with the role "requests" shares its connection among many callers: the wrong parameter of one of them does not
 * end the requests of the others. */
static bool ends_connection(struct session *session, const struct line *line)
{
	if (!session->for_requests || line->error_code != PROTOCOL_INVALID_PARAMS)
		session->broken_lines++;
	return session->broken_lines >= BROKEN_LINES_MAX || line->close;
}

static void on_broken(struct session *session, const struct line *line)
{
	const struct refusal refusal = {
		.code = line->error_code,
		.why = line->error_text,
		.reason = line->error_code == PROTOCOL_LINE_TOO_LONG ? "line_too_long" : NULL,
	};

	metric_add(session->sessions->protocol_errors, 1);
	if (session->connection.group == NULL && !session->for_requests)
		hello_refuse(session, line, &refusal);
	else
		session_reply_error_with(
			session, line->id, refusal.code, refusal.why, refusal.reason);
	if (ends_connection(session, line)) {
		log_warn("connection_closed", LOG_STR("session", session->connection.id),
			LOG_STR("why", line->error_text),
			LOG_INT("broken_lines", session->broken_lines),
			LOG_STR("next", "its open deliveries go back to waiting"));
		session_close_soon(session);
	}
}

static void (*const actions[])(struct session *session, const struct line *line) = {
	[LINE_INVALID] = on_broken,
	[LINE_HELLO] = hello_check,
	[LINE_EXTEND] = on_extend,
	[LINE_WINDOW] = on_window,
	[LINE_DRAIN] = on_drain,
	[LINE_POKE] = on_poke,
	[LINE_LEASED] = leased_accept,
	[LINE_ANSWER] = on_answer,
};

void requests_handle(struct session *session, struct bytes text)
{
	struct line line = { .kind = LINE_INVALID };

	session->connection.silent_ms = 0;
	if (protocol_parse(session->sessions->parser, text, &line, NULL) != 0) {
		line = (struct line){ .kind = LINE_INVALID, .error_code = PROTOCOL_INTERNAL };
		(void)snprintf(
			line.error_text, sizeof(line.error_text), "out of memory; send it again");
	}
	if (session->connection.group == NULL && !session->for_requests &&
		line.kind != LINE_HELLO && line.kind != LINE_POKE && line.kind != LINE_INVALID) {
		struct line early = {
			.kind = LINE_INVALID, .id = line.id, .error_code = PROTOCOL_HELLO_ORDER
		};

		(void)snprintf(early.error_text, sizeof(early.error_text), "say hello first");
		line = early;
	}
	actions[line.kind](session, &line);
}

void requests_refuse(struct session *session, int code, const char *why)
{
	struct line line = { .kind = LINE_INVALID, .error_code = code, .close = true };

	(void)snprintf(line.error_text, sizeof(line.error_text), "%s", why);
	on_broken(session, &line);
}
