/*
 * Executes the lines that handlers send: hello, answers, extend, window, drain. Every line has one of three effects: a
 * reply or a verdict, an error reply, or the end of this connection. No line affects another connection.
 * A refused hello is logged as well, because the operator of the client may see only the log.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "dispatch/core.h"

#define BROKEN_LINES_MAX     10
#define SUBSCRIBED_MAX_BYTES 1000 /* length of the subscriptions in a log line */

/* A request has an id and gets a reply. A notification has none and gets no reply. */
static void reply_empty(struct session *session, struct bytes id)
{
	struct buf *line = &session->dispatch->line;

	if (id.data == NULL)
		return;
	buf_reset(line);
	protocol_add_empty_reply(line, id);
	session_reply(session, line);
}

/* "orders:order.* payments:* and 3 more". */
static void add_subscribed(struct buf *out, const struct hello *hello)
{
	for (size_t i = 0; i < hello->subscribe_count; i++) {
		const struct subscription *item = &hello->subscribe[i];

		if (out->length >= SUBSCRIBED_MAX_BYTES) {
			buf_addf(out, " and %zu more", hello->subscribe_count - i);
			return;
		}
		buf_addf(out, "%s%s:%s", i > 0 ? " " : "", item->topic == NULL ? "*" : item->topic,
			item->type == NULL ? "*" : item->type);
	}
}

static void log_connected(const struct session *session, const struct hello *hello)
{
	struct buf subscribed = BUF_INIT;

	add_subscribed(&subscribed, hello);
	log_info("handler_connected", LOG_STR("handler", hello->handler),
		LOG_STR("instance", hello->instance), LOG_STR("client", hello->client),
		LOG_STR("session", session->id), LOG_INT("max_in_flight", hello->max_in_flight),
		LOG_STR("subscribe", buf_ok(&subscribed) ? buf_str(&subscribed) : NULL));
	buf_fini(&subscribed);
}

/* Logs why a hello is refused and sends the same reason to the client. */
static void refuse_hello(
	struct session *session, const struct line *line, int code, const char *why)
{
	log_warn("hello_refused", LOG_STR("handler", line->hello.handler), LOG_INT("code", code),
		LOG_STR("why", why), LOG_STR("session", session->id),
		LOG_STR("next",
			"the client got the reason; it gets no message until it sends a valid "
			"hello"));
	session_reply_error(session, line->id, code, why);
}

static void send_hello_reply(struct session *session, const struct line *line)
{
	struct dispatch *dispatch = session->dispatch;
	struct hello_reply reply = {
		.session = session->id,
		.timeout_ms = line->hello.timeout_ms,
		.max_attempts = dispatch->rules.max_attempts,
		.subscribe = line->hello.subscribe,
		.subscribe_count = line->hello.subscribe_count,
	};

	buf_reset(&dispatch->line);
	protocol_add_hello_reply(&dispatch->line, line->id, &reply);
	session_send(session, &dispatch->line);
	log_connected(session, &line->hello);
}

static int refusal_code(int r)
{
	if (r == ROUTING_OVERLAP)
		return PROTOCOL_OVERLAP;
	return r == ROUTING_FULL ? PROTOCOL_SUBSCRIPTIONS : PROTOCOL_INTERNAL;
}

static void on_hello(struct session *session, const struct line *line)
{
	const struct hello *hello = &line->hello;
	struct err err = ERR_INIT;
	int r;

	if (session->handler != NULL) {
		refuse_hello(session, line, PROTOCOL_HELLO_ORDER, "hello was said already");
		return;
	}
	if (dispatch_is_stopping(session->dispatch)) {
		refuse_hello(session, line, PROTOCOL_SHUTTING_DOWN,
			"inboxd is shutting down; connect again later");
		return;
	}
	session->window = (size_t)hello->max_in_flight;
	session->timeout_ms = hello->timeout_ms;
	session->batch_max = (size_t)hello->batch_max;
	session->batch_wait_ms = hello->batch_wait_ms;
	r = handlers_join(session->dispatch, session, hello, &err);
	if (r == 0)
		send_hello_reply(session, line);
	else
		refuse_hello(session, line, refusal_code(r), err.text);
}

/* The open delivery of this session with the id "d9001.2", or NULL. The id must be written exactly as it was sent. */
static struct entry *find_delivery(struct session *session, const char *id)
{
	char *end = NULL;
	char exact[ENTRY_ID_BYTES];
	struct entry *entry;
	long long seq;

	if (id[0] != 'd')
		return NULL;
	seq = strtoll(id + 1, &end, 10);
	if (*end != '.')
		return NULL;
	entry = entry_find(session->dispatch, seq, (int)strtol(end + 1, NULL, 10));
	if (entry == NULL || entry->state != ENTRY_OPEN || entry->session != session)
		return NULL;
	entry_id(entry, exact);
	return strcmp(id, exact) == 0 ? entry : NULL;
}

static void answer(struct session *session, struct entry *entry, const struct verdict *verdict)
{
	struct dispatch *dispatch = session->dispatch;

	FAULT_POINT("after_answer");
	handlers_close_delivery(dispatch, entry);
	if (retry_policy_answer(&dispatch->rules, entry, verdict, NULL) != 0)
		log_warn("verdict_text_lost", LOG_STR("event_id", entry->message->event_id),
			LOG_STR("why", "out of memory"),
			LOG_STR("next", "the verdict is stored without its texts"));
	entry_settle(dispatch, entry);
}

/* The verdict of an answer for one entry. Most answers to a batch are in the order of the batch, so the search starts
 * at `guess`. An entry without a verdict is retried. */
static const struct verdict *verdict_for(
	const struct line *line, const struct entry *entry, size_t guess)
{
	static const struct verdict missing = {
		.status = STATUS_RETRY,
		.delay_ms = -1,
		.reason = { "the answer to the batch has no entry for it", 43 },
		.code = { "PROTOCOL", 8 },
	};
	char id[ENTRY_ID_BYTES];
	size_t length;

	if (!line->batch_answer)
		return line->verdict_count > 0 ? &line->verdicts[0] : &missing;
	entry_id(entry, id);
	length = strlen(id);
	for (size_t i = 0; i < line->verdict_count; i++) {
		const struct verdict *verdict = &line->verdicts[(guess + i) % line->verdict_count];

		if (verdict->entry.length == length && memcmp(verdict->entry.data, id, length) == 0)
			return verdict;
	}
	return &missing;
}

static bool answer_batch(struct session *session, const struct line *line)
{
	struct call *call = NULL;
	struct entry *entry;
	size_t position = 0;
	bool last;

	HASH_FIND_STR(session->dispatch->calls, line->delivery, call);
	if (call == NULL || call->session != session)
		return false;
	do {
		entry = TAILQ_FIRST(&call->entries);
		last = TAILQ_NEXT(entry, call_link) == NULL; /* answer() frees the call with it */
		answer(session, entry, verdict_for(line, entry, position++));
	} while (!last);
	return true;
}

static void on_answer(struct session *session, const struct line *line)
{
	struct entry *entry = find_delivery(session, line->delivery);

	if (entry != NULL && entry->call == NULL)
		answer(session, entry, verdict_for(line, entry, 0));
	else if (!answer_batch(session, line))
		metric_add(session->dispatch->unknown_answers, 1);
}

static void on_extend(struct session *session, const struct line *line)
{
	struct entry *entry = find_delivery(session, line->delivery);

	session->extended_us = clock_now_us();
	if (entry != NULL) {
		delivery_extend(entry, clock_now_ms() + line->timeout_ms);
		reply_empty(session, line->id);
		return;
	}
	metric_add(session->dispatch->unknown_answers, 1);
	if (line->id.data != NULL)
		session_reply_error(
			session, line->id, PROTOCOL_UNKNOWN_DELIVERY, "no such delivery is open");
}

static void on_window(struct session *session, const struct line *line)
{
	session->window = (size_t)line->max_in_flight;
	reply_empty(session, line->id);
	dispatch_schedule(session->dispatch);
}

static void on_drain(struct session *session, const struct line *line)
{
	if (session->drain_id.length > 0) {
		session_reply_error(
			session, line->id, PROTOCOL_INVALID_REQUEST, "drain was asked for already");
		return;
	}
	session->draining = true;
	buf_reset(&session->drain_id);
	buf_add(&session->drain_id, line->id.data, line->id.length);
	suspects_release_of(session->dispatch, session);
	session_check_drained(session);
}

static void on_broken(struct session *session, const struct line *line)
{
	metric_add(session->dispatch->protocol_errors, 1);
	if (session->handler == NULL)
		refuse_hello(session, line, line->error_code, line->error_text);
	else
		session_reply_error(session, line->id, line->error_code, line->error_text);
	if (++session->broken_lines >= BROKEN_LINES_MAX || line->close) {
		log_warn("connection_closed", LOG_STR("session", session->id),
			LOG_STR("why", line->error_text),
			LOG_INT("broken_lines", session->broken_lines),
			LOG_STR("next", "its open deliveries go back to waiting"));
		session_close_soon(session);
	}
}

static void (*const actions[])(struct session *session, const struct line *line) = {
	[LINE_INVALID] = on_broken,
	[LINE_HELLO] = on_hello,
	[LINE_EXTEND] = on_extend,
	[LINE_WINDOW] = on_window,
	[LINE_DRAIN] = on_drain,
	[LINE_ANSWER] = on_answer,
};

void requests_handle(struct session *session, struct bytes text)
{
	struct line line = { .kind = LINE_INVALID };

	session->silent_ms = 0;
	if (protocol_parse(session->dispatch->parser, text, &line, NULL) != 0) {
		line = (struct line){ .kind = LINE_INVALID, .error_code = PROTOCOL_INTERNAL };
		(void)snprintf(
			line.error_text, sizeof(line.error_text), "out of memory; send it again");
	}
	if (session->handler == NULL && line.kind != LINE_HELLO && line.kind != LINE_INVALID) {
		struct line early = {
			.kind = LINE_INVALID, .id = line.id, .error_code = PROTOCOL_HELLO_ORDER
		};

		(void)snprintf(early.error_text, sizeof(early.error_text), "say hello first");
		line = early;
	}
	actions[line.kind](session, &line);
}

void requests_refuse(struct session *session, const char *why)
{
	struct line line = {
		.kind = LINE_INVALID, .error_code = PROTOCOL_LINE_TOO_LONG, .close = true
	};

	(void)snprintf(line.error_text, sizeof(line.error_text), "%s", why);
	on_broken(session, &line);
}
