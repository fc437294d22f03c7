/*
 * Executes the lines of the sidecar: deliver, deliver_batch, cancel, and the answers to hello and drain. Each of them
 * can end the connection, so the caller checks wire.fd afterwards.
 */
#include <stdio.h>
#include <string.h>

#include "client/handler.h"

enum {
	LEAST_LINE = 65536, /* a smaller max_line_bytes of a sidecar is ignored */
	LIVED_MS = 10000,   /* after such a connection the next one may come soon */
	TIMEOUT_MS = 30000, /* the protocol's own, if the sidecar does not say it */
};

/* Answers a delivery that the program never sees. */
static void settle_unseen(struct inbox_handler *handler, struct inbox_delivery *delivery,
	const struct ih_verdict *verdict)
{
	ih_show(handler, delivery);
	if (ih_answer(delivery, verdict) != INBOX_ERROR_MEMORY)
		return;
	/* The delivery is open now, but no program will ever answer it. A lost connection makes the sidecar deliver it
	 * again. */
	ih_connection_lost(handler, "out of memory for an answer");
	ih_let_go(delivery);
}

void ih_lines_give_back(struct inbox_handler *handler)
{
	const struct ih_verdict verdict = { .status = IH_SNOOZE, .delay_ms = 0 };
	struct inbox_delivery *delivery;

	while ((delivery = TAILQ_FIRST(&handler->ready)) != NULL)
		settle_unseen(handler, delivery, &verdict);
}

/* Answers the ready deliveries that are broken. Each answer can end the connection and with it all ready deliveries, so
 * the list is searched from its start. */
static void refuse_broken(struct inbox_handler *handler)
{
	struct inbox_delivery *delivery = TAILQ_FIRST(&handler->ready);

	while (delivery != NULL) {
		const struct ih_verdict verdict = {
			.status = IH_RETRY,
			.delay_ms = -1,
			.reason = delivery->broken,
			.code = "PROTOCOL",
		};

		if (delivery->broken == NULL) {
			delivery = TAILQ_NEXT(delivery, list);
			continue;
		}
		settle_unseen(handler, delivery, &verdict);
		delivery = TAILQ_FIRST(&handler->ready);
	}
}

static void add_error(
	struct inbox_handler *handler, const struct ih_line *line, int code, const char *text)
{
	struct buf *out = &handler->wire.out;

	if (line->record.fields[IH_LINE_ID].start == 0)
		return;
	buf_add_str(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	buf_add_str(out, ih_record_text(&line->record, IH_LINE_ID));
	buf_addf(out, ",\"error\":{\"code\":%d,\"message\":\"%s\"}}\n", code, text);
}

/* Moves the deliveries of a line to the ready ones. From here on nothing can fail, so a line is never executed by
 * half. */
static int accept_line(struct inbox_handler *handler, struct ih_line *line, struct ih_batch *batch)
{
	const int64_t due_ms = ih_due_ms(handler->timeout_ms);
	struct inbox_delivery *delivery;
	bool broken = false;

	handler->backoff.failures = 0;
	while ((delivery = TAILQ_FIRST(&line->deliveries)) != NULL) {
		TAILQ_REMOVE(&line->deliveries, delivery, list);
		if (delivery->record.fields[IH_EVENT].start == 0)
			delivery->broken = "it has no event";
		broken = broken || delivery->broken != NULL;
		delivery->handler = handler;
		delivery->due_ms = due_ms;
		delivery->batch = batch;
		TAILQ_INSERT_TAIL(&handler->ready, delivery, list);
		if (batch == NULL)
			continue;
		batch->open++;
		batch->ready++;
	}
	if (broken)
		refuse_broken(handler);
	if (handler->state == IH_DRAINING)
		ih_lines_give_back(handler);
	return 0;
}

static int on_deliver(struct inbox_handler *handler, struct ih_line *line)
{
	struct inbox_delivery *delivery = TAILQ_FIRST(&line->deliveries);
	const struct ih_slice id = line->record.fields[IH_LINE_ID];
	const struct inbox_bytes text = ih_record_bytes(&line->record, id);

	if (delivery == NULL || id.start == 0 || line->entries) {
		add_error(handler, line, -32602, "deliver needs an id, a delivery and an event");
		return 0;
	}
	delivery->record.fields[IH_ID] =
		ih_record_add(&delivery->record, (struct bytes){ text.data, text.length });
	if (delivery->record.bag.broken)
		return INBOX_ERROR_MEMORY;
	return accept_line(handler, line, NULL);
}

/* An entry without an id cannot be answered. It is missing in the answer, so the sidecar retries it. */
static void drop_nameless(struct inbox_handler *handler, struct ih_line *line)
{
	struct inbox_delivery *delivery = TAILQ_FIRST(&line->deliveries);

	while (delivery != NULL) {
		struct inbox_delivery *next = TAILQ_NEXT(delivery, list);

		if (delivery->record.fields[IH_ID].start == 0) {
			TAILQ_REMOVE(&line->deliveries, delivery, list);
			ih_pool_give(&handler->pool, delivery);
		}
		delivery = next;
	}
}

static int on_deliver_batch(struct inbox_handler *handler, struct ih_line *line)
{
	const struct ih_slice id = line->record.fields[IH_LINE_ID];
	struct ih_batch *batch;

	drop_nameless(handler, line);
	if (TAILQ_EMPTY(&line->deliveries) || id.start == 0) {
		add_error(handler, line, -32602, "deliver_batch needs an id, and entries with ids");
		return 0;
	}
	batch = ih_batch_new(ih_record_bytes(&line->record, id));
	if (batch == NULL)
		return INBOX_ERROR_MEMORY;
	return accept_line(handler, line, batch);
}

/* A text that lives as long as the delivery, which the line does not. */
static const char *known_reason(const char *text)
{
	static const char *const reasons[] = { "timeout", "lease_lost", "shutdown" };

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (strcmp(reasons[i], text) == 0)
			return reasons[i];
	}
	return "cancelled";
}

/* True if the id is that of the delivery or of its batch. */
static bool is_named(const struct inbox_delivery *delivery, const char *id)
{
	const struct ih_batch *batch = delivery->batch;

	if (strcmp(ih_record_text(&delivery->record, IH_ID), id) == 0)
		return true;
	return batch != NULL && strlen(id) == batch->id.length &&
	       memcmp(batch->id.data, id, batch->id.length) == 0;
}

static int on_cancel(struct inbox_handler *handler, struct ih_line *line)
{
	const char *id = ih_record_text(&line->record, IH_CANCELLED_ID);
	const char *reason = known_reason(ih_record_text(&line->record, IH_CANCEL_REASON));
	struct inbox_delivery *delivery = TAILQ_FIRST(&handler->ready);

	while (delivery != NULL) {
		struct inbox_delivery *next = TAILQ_NEXT(delivery, list);

		if (is_named(delivery, id)) {
			ih_show(handler, delivery);
			ih_let_go(delivery);
		}
		/* If the connection was lost on the way, no delivery is ready any more. */
		delivery = handler->wire.fd < 0 ? NULL : next;
	}
	/* An open delivery belongs to the program, which learns of the cancel when it asks or answers. */
	TAILQ_FOREACH (delivery, &handler->open, list) {
		if (delivery->cancelled == NULL && is_named(delivery, id))
			delivery->cancelled = reason;
	}
	return 0;
}

/* Errors of hello that do not go away by themselves, and what an operator can do. Any other error is tried again. */
static const struct {
	int code;
	const char *advice;
} refusals[] = {
	{ -32000, "allow this user with socket.mode, socket.group or socket.allow_uid" },
	{ -32001, "use a handler library and a sidecar that speak the same protocol version" },
	{ -32003, "list handlers that need the same messages as consumers; give handlers that "
		  "share work one name" },
	{ -32005, "subscribe to prefixes (\"order.*\") or whole topics" },
	{ -32602, "correct the options of the handler" },
};

static void on_hello_error(struct inbox_handler *handler, const struct ih_line *line)
{
	const char *message = ih_record_text(&line->record, IH_ERROR_MESSAGE);
	const int64_t code = ih_record_number(&line->record, IH_ERROR_CODE);
	const char *advice = NULL;
	char why[256];

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		if (refusals[i].code == code)
			advice = refusals[i].advice;
	}
	if (advice == NULL) {
		snprintf(why, sizeof(why),
			"the sidecar does not accept this handler now: %s (%lld)", message,
			(long long)code);
		ih_connection_lost(handler, why);
		return;
	}
	ih_fail(handler, INBOX_ERROR_REFUSED, "the sidecar at %s refused this handler: %s (%s): %s",
		handler->socket, message, ih_record_text(&line->record, IH_ERROR_CODE), advice);
	ih_log(handler, "%s", handler->words);
	handler->refused = true;
	handler->state = IH_CLOSED;
	ih_connection_lost(handler, "refused");
}

void ih_lines_add_window(struct inbox_handler *handler)
{
	if (handler->window < 0 || handler->state != IH_READY)
		return;
	buf_addf(&handler->wire.out,
		"{\"jsonrpc\":\"2.0\",\"method\":\"window\",\"params\":{\"max_in_flight\":%lld}}\n",
		(long long)handler->window);
}

static enum ih_ordering ordering_of(const struct ih_line *line)
{
	static const char *const names[] = {
		[IH_ORDER_NONE] = "none",
		[IH_ORDER_KEY] = "key",
		[IH_ORDER_PARTITION] = "partition",
	};
	const char *name = ih_record_text(&line->record, IH_ORDERING);

	if (*name == '\0')
		return IH_ORDER_UNKNOWN;
	for (int i = IH_ORDER_NONE; i < IH_ORDER_PARTITION; i++) {
		if (strcmp(names[i], name) == 0)
			return (enum ih_ordering)i;
	}
	/* An order of a later version: to skip too many messages does no harm. */
	return IH_ORDER_PARTITION;
}

static void on_hello_answer(struct inbox_handler *handler, const struct ih_line *line)
{
	const int64_t max_line = ih_record_number(&line->record, IH_MAX_LINE_BYTES);
	const int64_t timeout_ms = ih_record_number(&line->record, IH_TIMEOUT);

	if (line->record.fields[IH_ERROR_CODE].start != 0) {
		on_hello_error(handler, line);
		return;
	}
	handler->state = IH_READY;
	handler->due_ms = ih_now_ms() + LIVED_MS;
	handler->ordering = ordering_of(line);
	handler->timeout_ms = timeout_ms > 0 ? timeout_ms : TIMEOUT_MS;
	handler->max_line = IH_MAX_LINE;
	if (max_line >= LEAST_LINE && max_line < IH_MAX_LINE)
		handler->max_line = (size_t)max_line;
	ih_lines_add_window(handler);
	if (handler->backoff.since_ms != 0)
		ih_log(handler, "connected to %s after %lld ms without a connection",
			handler->socket, (long long)(ih_now_ms() - handler->backoff.since_ms));
	else
		ih_log(handler, "connected to %s", handler->socket);
	handler->backoff.since_ms = 0;
}

/* An answer to hello or drain, or an error reply to another line of this handler. */
static void on_answer(struct inbox_handler *handler, const struct ih_line *line)
{
	if (handler->state == IH_GREETING)
		on_hello_answer(handler, line);
	else if (handler->state == IH_DRAINING &&
		 strcmp(ih_record_text(&line->record, IH_LINE_ID), "2") == 0)
		ih_connection_lost(handler, "drained");
	else
		ih_log(handler, "the sidecar did not understand a line: %s (%s)",
			ih_record_text(&line->record, IH_ERROR_MESSAGE),
			ih_record_text(&line->record, IH_ERROR_CODE));
}

static const struct {
	const char *name;
	int (*act)(struct inbox_handler *handler, struct ih_line *line);
} methods[] = {
	{ "deliver", on_deliver },
	{ "deliver_batch", on_deliver_batch },
	{ "cancel", on_cancel },
};

int ih_lines_act(struct inbox_handler *handler, struct ih_line *line)
{
	const char *method = ih_record_text(&line->record, IH_METHOD);

	if (*method == '\0') {
		on_answer(handler, line);
		return 0;
	}
	if (handler->state == IH_GREETING) {
		ih_connection_lost(handler, "the sidecar sent a request before it answered hello");
		return 0;
	}
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i].name, method) == 0)
			return methods[i].act(handler, line);
	}
	add_error(handler, line, -32601, "this handler library does not know the method");
	return 0;
}
