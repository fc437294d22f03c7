/*
 * Writes verdicts: a line for a single delivery, or an entry for a delivery of a batch. The line of a batch is
 * complete with its last entry. Answers are written to the send buffer; handler.c decides when they are sent. If
 * there is no memory for a verdict, the delivery stays as it was.
 */
#include "client/handler.h"

#include <string.h>
#include <yajl/yajl_parse.h>

enum { REASON_MAX = 4096, CODE_MAX = 64, NESTING_MAX = 500 };

static const char *const status_names[] = {
	[IH_DONE] = "done",
	[IH_RETRY] = "retry",
	[IH_DEAD] = "dead",
	[IH_SNOOZE] = "snooze",
	[IH_SETTLED] = "settled",
};

static void add_quoted(struct ih_buffer *out, const char *member, const char *text, size_t max)
{
	if (text == NULL)
		return;
	ih_buffer_add_text(out, member);
	ih_buffer_add_string(out, text, max);
}

/* Replaces white space that must not be in a line. LF and CR can only be between tokens, where a space means the
 * same. Vertical tab and form feed are accepted by yajl, but not by the sidecar. */
static void add_json(struct ih_buffer *out, struct inbox_bytes json)
{
	const size_t start = out->length;

	ih_buffer_add(out, json.data, json.length);
	if (out->broken)
		return;
	for (size_t i = start; i < out->length; i++) {
		if (out->data[i] >= '\n' && out->data[i] <= '\r')
			out->data[i] = ' ';
	}
}

/* The members of a verdict, without braces. */
static void add_verdict(struct ih_buffer *out, const struct ih_verdict *verdict)
{
	ih_buffer_add_text(out, "\"status\":\"");
	ih_buffer_add_text(out, status_names[verdict->status]);
	ih_buffer_add_text(out, "\"");
	if (verdict->delay_ms >= 0) {
		ih_buffer_add_text(out, ",\"delay_ms\":");
		ih_buffer_add_number(out, verdict->delay_ms);
	}
	add_quoted(out, ",\"reason\":", verdict->reason, REASON_MAX);
	add_quoted(out, ",\"code\":", verdict->code, CODE_MAX);
	if (verdict->result.data != NULL) {
		ih_buffer_add_text(out, ",\"result\":");
		add_json(out, verdict->result);
	}
}

static void add_single(struct ih_buffer *out, const struct inbox_delivery *delivery,
	const struct ih_verdict *verdict)
{
	ih_buffer_add_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	ih_buffer_add_text(out, ih_record_text(&delivery->record, IH_ID));
	ih_buffer_add_text(out, ",\"result\":{");
	add_verdict(out, verdict);
	ih_buffer_add_text(out, "}}\n");
}

static void add_entry(struct ih_buffer *out, const struct inbox_delivery *delivery,
	const struct ih_verdict *verdict)
{
	ih_buffer_add_text(out, out->length == 0 ? "{\"id\":" : ",{\"id\":");
	ih_buffer_add_text(out, ih_record_text(&delivery->record, IH_ID));
	ih_buffer_add_text(out, ",");
	add_verdict(out, verdict);
	ih_buffer_add_text(out, "}");
}

static void add_batch(struct ih_buffer *out, const struct ih_batch *batch)
{
	ih_buffer_add_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	ih_buffer_add(out, batch->id.data, batch->id.length);
	ih_buffer_add_text(out, ",\"result\":{\"entries\":[");
	ih_buffer_add(out, batch->answers.data, batch->answers.length);
	ih_buffer_add_text(out, "]}}\n");
}

/* False if there was no memory for the last additions: the buffer is cut to its former length then. */
static bool whole(struct ih_buffer *buffer, size_t length_before)
{
	if (!buffer->broken)
		return true;
	ih_buffer_cut(buffer, length_before);
	return false;
}

static bool write_single(struct inbox_delivery *delivery, const struct ih_verdict *verdict)
{
	struct ih_buffer *out = &delivery->handler->wire.out;
	const size_t before = out->length;

	add_single(out, delivery, verdict);
	return whole(out, before);
}

/* The results and reasons of a batch share half of the line. The other half is reserved for the rest of each verdict.
 */
static size_t room(const struct inbox_delivery *delivery)
{
	const size_t half = delivery->handler->max_line / 2;
	const size_t used = delivery->batch == NULL ? 0 : delivery->batch->answers.length;

	return used > half ? 0 : half - used;
}

static bool crowded(const struct inbox_delivery *delivery)
{
	return room(delivery) < REASON_MAX * sizeof("\\u0000");
}

static bool write_entry(struct inbox_delivery *delivery, const struct ih_verdict *verdict)
{
	struct ih_buffer *answers = &delivery->batch->answers;
	struct ih_buffer *out = &delivery->handler->wire.out;
	const size_t answers_before = answers->length;
	const size_t out_before = out->length;
	struct ih_verdict short_verdict = *verdict;

	short_verdict.reason = NULL;
	add_entry(answers, delivery, crowded(delivery) ? &short_verdict : verdict);
	if (!whole(answers, answers_before))
		return false;
	if (delivery->batch->open > 1)
		return true;
	add_batch(out, delivery->batch);
	if (whole(out, out_before))
		return true;
	ih_buffer_cut(answers, answers_before);
	return false;
}

static void leave_batch(struct inbox_delivery *delivery)
{
	struct ih_batch *batch = delivery->batch;

	if (batch != NULL && --batch->open == 0)
		ih_batch_free(batch);
}

/* Removes a delivery from its list and returns it to the pool. */
static void end(struct inbox_delivery *delivery)
{
	struct inbox_handler *handler = delivery->handler;

	leave_batch(delivery);
	if (handler->current == delivery)
		handler->current = NULL;
	TAILQ_REMOVE(&handler->open, delivery, list);
	ih_pool_give(&handler->pool, delivery);
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
		written = whole(&handler->wire.out, before);
	}
	end(delivery);
	if (!written)
		ih_session_lost(handler, "out of memory for the answer to a batch");
}

int ih_answer(struct inbox_delivery *delivery, const struct ih_verdict *verdict)
{
	struct inbox_handler *handler = delivery->handler;
	bool written;

	if (delivery->cancelled != NULL) {
		ih_let_go(delivery);
		return INBOX_CANCELLED;
	}
	if (delivery->batch == NULL)
		written = write_single(delivery, verdict);
	else
		written = write_entry(delivery, verdict);
	if (!written)
		return ih_fail(handler, INBOX_ERROR_MEMORY,
			"out of memory for an answer: the delivery is still open");
	end(delivery);
	return 0;
}

int inbox_delivery_done(struct inbox_delivery *delivery)
{
	return ih_answer(delivery, &(struct ih_verdict){ .status = IH_DONE, .delay_ms = -1 });
}

static int one_deeper(void *depth)
{
	return ++*(int *)depth <= NESTING_MAX;
}

static int one_up(void *depth)
{
	--*(int *)depth;
	return 1;
}

static bool is_blank(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\0' || strchr(" \t\r\n", text[i]) == NULL)
			return false;
	}
	return true;
}

/* True for one JSON value that is not nested deeper than the sidecar accepts. The checks in addition to yajl: it
 * accepts the beginning of a token behind the value, such as an opening quote, and surrogates in UTF-8. */
static bool is_json(const char *text, size_t length)
{
	static const yajl_callbacks callbacks = {
		.yajl_start_map = one_deeper,
		.yajl_end_map = one_up,
		.yajl_start_array = one_deeper,
		.yajl_end_array = one_up,
	};
	int depth = 0;
	yajl_handle yajl = yajl_alloc(&callbacks, NULL, &depth);
	bool valid;
	size_t end;

	if (yajl == NULL)
		return false;
	(void)yajl_config(yajl, yajl_allow_trailing_garbage, 1);
	valid = yajl_parse(yajl, (const unsigned char *)text, length) == yajl_status_ok;
	end = yajl_get_bytes_consumed(yajl);
	valid = valid && yajl_complete_parse(yajl) == yajl_status_ok &&
		is_blank(text + end, length - end) && ih_utf8_is_valid(text, length);
	yajl_free(yajl);
	return valid;
}

int inbox_delivery_done_with(struct inbox_delivery *delivery, const char *json, size_t length)
{
	const struct ih_verdict verdict = {
		.status = IH_DONE,
		.delay_ms = -1,
		.result = { json, length },
	};

	if (json == NULL || length > room(delivery))
		return ih_fail(delivery->handler, INBOX_ERROR_ARGUMENT,
			"a result of %zu bytes does not fit into the answer, which has room for "
			"%zu: "
			"store it elsewhere and answer with a reference",
			length, room(delivery));
	if (!is_json(json, length))
		return ih_fail(delivery->handler, INBOX_ERROR_ARGUMENT,
			"the result is not one JSON value nested at most %d deep: the delivery is "
			"still open",
			NESTING_MAX);
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
	const struct ih_verdict verdict = {
		.status = IH_SNOOZE,
		.delay_ms = delay_ms,
	};

	return ih_answer(delivery, &verdict);
}

int inbox_delivery_settled(struct inbox_delivery *delivery)
{
	return ih_answer(delivery, &(struct ih_verdict){ .status = IH_SETTLED, .delay_ms = -1 });
}

static void add_extend(
	struct ih_buffer *out, const struct inbox_delivery *delivery, int64_t timeout_ms)
{
	ih_buffer_add_text(out, "{\"jsonrpc\":\"2.0\",\"method\":\"extend\","
				"\"params\":{\"delivery\":");
	ih_buffer_add_text(out, ih_record_text(&delivery->record, IH_ID));
	ih_buffer_add_text(out, ",\"timeout_ms\":");
	ih_buffer_add_number(out, timeout_ms);
	ih_buffer_add_text(out, "}}\n");
}

int inbox_delivery_extend(struct inbox_delivery *delivery, int64_t timeout_ms)
{
	struct inbox_handler *handler = delivery->handler;
	const size_t before = handler->wire.out.length;

	if (timeout_ms <= 0)
		return ih_fail(handler, INBOX_ERROR_ARGUMENT,
			"a delivery can't be extended to end before now: give a timeout_ms above "
			"0");
	if (delivery->cancelled != NULL)
		return INBOX_CANCELLED;
	add_extend(&handler->wire.out, delivery, timeout_ms);
	if (!whole(&handler->wire.out, before))
		return ih_fail(handler, INBOX_ERROR_MEMORY,
			"out of memory to extend a delivery: its deadline stays");
	ih_session_exchange(handler);
	return delivery->cancelled != NULL ? INBOX_CANCELLED : 0;
}

const char *inbox_delivery_cancelled(struct inbox_delivery *delivery)
{
	if (delivery->cancelled == NULL)
		ih_session_exchange(delivery->handler);
	return delivery->cancelled;
}
