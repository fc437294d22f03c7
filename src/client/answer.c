/*
 * Writes verdicts: a line for a single delivery, or an entry for a delivery of a batch. The line of a batch is
 * complete with its last entry. Answers are written to the send buffer; handler.c decides when they are sent. If
 * there is no memory for a verdict, the delivery stays as it was.
 */
#include "client/handler.h"
#include "json/stream.h"
#include "json/text.h"

enum { REASON_MAX = 4096, CODE_MAX = 64 };

static const char *const status_names[] = {
	[IH_DONE] = "done",
	[IH_RETRY] = "retry",
	[IH_DEAD] = "dead",
	[IH_SNOOZE] = "snooze",
	[IH_SETTLED] = "settled",
	[IH_SKIPPED] = "skipped",
};

bool ih_is_whole(struct buf *buffer, size_t length_before)
{
	if (buf_ok(buffer))
		return true;
	buf_cut(buffer, length_before);
	return false;
}

/* LF and CR must not be in a line, and VT and FF not in JSON. They can only be between tokens, where a space means the
 * same. */
static void make_one_line(struct buf *out, size_t start)
{
	for (size_t i = start; buf_ok(out) && i < out->length; i++) {
		if (out->data[i] >= '\n' && out->data[i] <= '\r')
			out->data[i] = ' ';
	}
}

static void add_events(struct buf *out, const struct inbox_delivery *delivery)
{
	buf_add_str(out, ",\"emit\":[");
	buf_add(out, delivery->events.data, delivery->events.length);
	buf_add_char(out, ']');
}

/* The members of a verdict, without braces. */
static void add_verdict(
	struct buf *out, const struct inbox_delivery *delivery, const struct ih_verdict *verdict)
{
	const size_t start = out->length;

	buf_addf(out, "\"status\":\"%s\"", status_names[verdict->status]);
	if (verdict->delay_ms >= 0)
		buf_addf(out, ",\"delay_ms\":%lld", (long long)verdict->delay_ms);
	if (verdict->reason != NULL) {
		buf_add_str(out, ",\"reason\":");
		json_add_any_string(out, verdict->reason, REASON_MAX);
	}
	if (verdict->code != NULL) {
		buf_add_str(out, ",\"code\":");
		json_add_any_string(out, verdict->code, CODE_MAX);
	}
	if (verdict->result.data != NULL) {
		buf_add_str(out, ",\"result\":");
		buf_add(out, verdict->result.data, verdict->result.length);
	}
	if (verdict->status == IH_DONE && delivery->event_count > 0)
		add_events(out, delivery);
	make_one_line(out, start);
}

static void add_batch(struct buf *out, const struct ih_batch *batch)
{
	buf_add_str(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	buf_add(out, batch->id.data, batch->id.length);
	buf_add_str(out, ",\"result\":{\"entries\":[");
	buf_add(out, batch->answers.data, batch->answers.length);
	buf_add_str(out, "]}}\n");
}

static bool write_single(struct inbox_delivery *delivery, const struct ih_verdict *verdict)
{
	struct buf *out = &delivery->handler->wire.out;
	const size_t before = out->length;

	buf_add_str(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	buf_add_str(out, ih_record_text(&delivery->record, IH_ID));
	buf_add_str(out, ",\"result\":{");
	add_verdict(out, delivery, verdict);
	buf_add_str(out, "}}\n");
	return ih_is_whole(out, before);
}

/* The results, events and reasons of a batch share half of the line. The other half is reserved for the rest of each
 * verdict. */
size_t ih_room(const struct inbox_delivery *delivery)
{
	const size_t half = delivery->handler->max_line / 2;
	const size_t used = delivery->batch == NULL ? 0 : delivery->batch->answers.length;

	return used > half ? 0 : half - used;
}

static bool write_entry(struct inbox_delivery *delivery, const struct ih_verdict *verdict)
{
	struct buf *answers = &delivery->batch->answers;
	struct buf *out = &delivery->handler->wire.out;
	const size_t answers_before = answers->length;
	const size_t out_before = out->length;
	struct ih_verdict short_verdict = *verdict;

	if (ih_room(delivery) < REASON_MAX * sizeof("\\u0000"))
		short_verdict.reason = NULL;
	buf_add_str(answers, answers->length == 0 ? "{\"id\":" : ",{\"id\":");
	buf_add_str(answers, ih_record_text(&delivery->record, IH_ID));
	buf_add_str(answers, ",");
	add_verdict(answers, delivery, &short_verdict);
	buf_add_str(answers, "}");
	if (!ih_is_whole(answers, answers_before))
		return false;
	if (delivery->batch->open > 1)
		return true; /* the others are still to come */
	add_batch(out, delivery->batch);
	if (ih_is_whole(out, out_before))
		return true;
	/* The verdict is taken back as a whole: the program can give it again. */
	buf_cut(answers, answers_before);
	return false;
}

/* If this is the last open entry of a batch, the answers of the other entries are sent. */
void ih_let_go(struct inbox_delivery *delivery)
{
	struct inbox_handler *handler = delivery->handler;
	const struct ih_batch *batch = delivery->batch;
	const size_t before = handler->wire.out.length;
	bool written = true;

	if (batch != NULL && batch->open == 1 && !batch->lost && batch->answers.length > 0) {
		add_batch(&handler->wire.out, batch);
		written = ih_is_whole(&handler->wire.out, before);
	}
	ih_release(delivery);
	/* Nobody can call this again, and the other verdicts of the batch would be missing. A lost connection makes
	 * the sidecar deliver all of them again. */
	if (!written)
		ih_connection_lost(handler, "out of memory for the answer to a batch");
}

/* Skips the messages of the same ordered batch that are behind this one and that the program has not seen. All ready
 * messages of a batch come after those that were handed out. False: no memory. What is skipped by then stays so: it is
 * delivered again in any case. */
static bool skip_behind(const struct inbox_delivery *delivery)
{
	const struct ih_verdict verdict = { .status = IH_SKIPPED, .delay_ms = -1 };
	struct inbox_handler *handler = delivery->handler;
	struct inbox_delivery *at = TAILQ_FIRST(&handler->ready);

	if (delivery->batch == NULL || !handler->batch_ordered)
		return true;
	while (at != NULL) {
		struct inbox_delivery *next = TAILQ_NEXT(at, list);

		if (at->batch == delivery->batch &&
			ih_share_order(at, delivery, handler->ordering)) {
			if (!write_entry(at, &verdict))
				return false;
			ih_show(handler, at);
			ih_release(at);
		}
		at = next;
	}
	return true;
}

static bool is_finished(enum ih_status status)
{
	return status == IH_DONE || status == IH_DEAD || status == IH_SETTLED;
}

int ih_answer(struct inbox_delivery *delivery, const struct ih_verdict *verdict)
{
	bool written;

	/* First, while this delivery keeps the answer of the batch incomplete. */
	if (!is_finished(verdict->status) && !skip_behind(delivery))
		return ih_fail(delivery->handler, INBOX_ERROR_MEMORY,
			"out of memory for an answer: the delivery is still open");
	if (delivery->cancelled != NULL) {
		ih_let_go(delivery);
		return INBOX_CANCELLED;
	}
	if (delivery->batch == NULL)
		written = write_single(delivery, verdict);
	else
		written = write_entry(delivery, verdict);
	if (!written)
		return ih_fail(delivery->handler, INBOX_ERROR_MEMORY,
			"out of memory for an answer: the delivery is still open");
	ih_release(delivery);
	return 0;
}

/* The other answers of a batch may have taken the room since the events were added. */
static int check_room(const struct inbox_delivery *delivery)
{
	if (delivery->event_count == 0 || delivery->events.length <= ih_room(delivery))
		return 0;
	return ih_fail(delivery->handler, INBOX_ERROR_ARGUMENT,
		"the events do not fit into the answer of the batch: answer another message of it "
		"with fewer events, or this one with a retry");
}

int inbox_delivery_done(struct inbox_delivery *delivery)
{
	const int r = check_room(delivery);

	if (r != 0)
		return r;
	return ih_answer(delivery, &(struct ih_verdict){ .status = IH_DONE, .delay_ms = -1 });
}

int ih_read_json(const char *text, size_t length, json_visit *visit, void *arg)
{
	static const struct json_limits limits = { .max_depth = IH_NESTING_MAX, .any_space = true };
	struct json_stream *stream = NULL;
	int r = json_stream_new_with(&stream, &limits, NULL);

	if (r != 0)
		return r;
	r = json_stream_read(stream, (struct bytes){ text, length }, visit, arg, NULL);
	json_stream_free(stream);
	return r > 0 ? IH_NOT_JSON : r;
}

int ih_check_json(const char *text, size_t length)
{
	return ih_read_json(text, length, NULL, NULL);
}

int inbox_delivery_done_with(struct inbox_delivery *delivery, const char *json, size_t length)
{
	const struct ih_verdict verdict = {
		.status = IH_DONE,
		.delay_ms = -1,
		.result = { json, length },
	};
	const size_t events = delivery->events.length;
	const size_t room = ih_room(delivery) > events ? ih_room(delivery) - events : 0;
	int r = check_room(delivery);

	if (r != 0)
		return r;
	if (json == NULL || length > room)
		return ih_fail(delivery->handler, INBOX_ERROR_ARGUMENT,
			"a result of %zu bytes does not fit into the answer, which has room for "
			"%zu: "
			"store it elsewhere and answer with a reference",
			length, room);
	r = ih_check_json(json, length);
	if (r < 0)
		return ih_fail(delivery->handler, INBOX_ERROR_MEMORY,
			"out of memory to check the result: the delivery is still open");
	if (r > 0)
		return ih_fail(delivery->handler, INBOX_ERROR_ARGUMENT,
			"the result is not one JSON value nested at most %d deep: the delivery is "
			"still open",
			IH_NESTING_MAX);
	return ih_answer(delivery, &verdict);
}

int inbox_delivery_retry(
	struct inbox_delivery *delivery, int64_t delay_ms, const char *reason, const char *code)
{
	const struct ih_verdict verdict = {
		.status = IH_RETRY,
		.delay_ms = delay_ms,
		.reason = reason,
		.code = code,
	};

	return ih_answer(delivery, &verdict);
}

int inbox_delivery_dead(struct inbox_delivery *delivery, const char *reason, const char *code)
{
	const struct ih_verdict verdict = {
		.status = IH_DEAD,
		.delay_ms = -1,
		.reason = reason,
		.code = code,
	};

	return ih_answer(delivery, &verdict);
}

int inbox_delivery_snooze(struct inbox_delivery *delivery, int64_t delay_ms)
{
	return inbox_delivery_snooze_with(delivery, delay_ms, NULL, NULL);
}

int inbox_delivery_snooze_with(
	struct inbox_delivery *delivery, int64_t delay_ms, const char *reason, const char *code)
{
	const struct ih_verdict verdict = {
		.status = IH_SNOOZE,
		.delay_ms = delay_ms,
		.reason = reason,
		.code = code,
	};

	return ih_answer(delivery, &verdict);
}

int inbox_delivery_settled(struct inbox_delivery *delivery)
{
	if (delivery->event_count > 0)
		return ih_fail(delivery->handler, INBOX_ERROR_ARGUMENT,
			"settled cannot emit: pass the events to inbox.complete(claim, result, "
			"emit) in your transaction");
	return ih_answer(delivery, &(struct ih_verdict){ .status = IH_SETTLED, .delay_ms = -1 });
}

int inbox_delivery_skipped(struct inbox_delivery *delivery)
{
	/* A sidecar that does not know the status would count an attempt. */
	const bool known = delivery->handler->ordering != IH_ORDER_UNKNOWN;
	const struct ih_verdict verdict = {
		.status = known ? IH_SKIPPED : IH_SNOOZE,
		.delay_ms = known ? -1 : 0,
	};

	return ih_answer(delivery, &verdict);
}
