/*
 * See slot.h. inboxd decides when the time of a message is over, and says so with a cancel. In case that does not come,
 * the slot kills the process by its own clock a little later.
 */
#include "bridge/exec/slot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time/backoff.h"
#include "base/time/clock.h"
#include "bridge/exec/answer_line.h"

enum {
	ANSWER_MAX = BRIDGE_RESULT_MAX + 8192, /* an answer line with the longest result */
	LATE_MS = 2000, /* how long after the deadline the slot waits for the cancel */
	EXTENSIONS = 3, /* the deadline is extended when a third of the time is over */
	LEAST_SPAN_MS = 300,
	CUT_OFF_MS = 1000,
	RESTART_MS = 100, /* the first delay before a process is started again; doubles */
	RESTART_MAX_MS = 10000,
};

int slot_context_init(
	struct slot_context *context, const struct exec_options *options, struct err *err)
{
	static const struct json_limits limits = { .max_depth = JSON_DEEPEST, .any_space = true };
	int r;

	*context = (struct slot_context){ .options = options };
	r = event_init(&context->event, err);
	if (r == 0)
		r = json_stream_new_with(&context->stream, &limits, err);
	return r != 0 ? r : environment_set(&context->environment, environ, NULL, err);
}

void slot_context_fini(struct slot_context *context)
{
	event_fini(&context->event);
	json_stream_free(context->stream);
	environment_fini(&context->environment);
}

void slot_init(struct slot *slot)
{
	*slot = (struct slot){ .delivery = NULL };
	process_init(&slot->process, ANSWER_MAX);
}

void slot_fini(struct slot *slot, int64_t until_ms)
{
	process_fini(&slot->process, until_ms);
}

bool slot_is_alive(const struct slot *slot)
{
	return slot->process.pid != 0 && !slot->process.killed;
}

bool slot_is_usable(const struct slot *slot)
{
	return slot_is_alive(slot) && slot->process.report < 0 && slot->process.start_error == 0 &&
	       slot->process.in >= 0 && slot->process.out >= 0;
}

bool slot_is_ready(const struct slot *slot, const struct slot_context *context)
{
	if (slot->delivery != NULL)
		return false;
	if (context->options->lines)
		return slot_is_usable(slot);
	return slot->process.pid == 0;
}

/* --- Answers ----------------------------------------------------------------------------------- */

static int answer(struct slot *slot, const struct bridge_verdict *verdict, struct err *err)
{
	const int r = bridge_answer(slot->delivery, verdict, err);

	if (r == 0)
		slot->delivery = NULL;
	return r;
}

static int answer_failure(struct slot *slot, const char *code, const char *reason, struct err *err)
{
	struct bridge_verdict verdict = { .status = BRIDGE_RETRY, .delay_ms = -1 };

	(void)snprintf(verdict.code, sizeof(verdict.code), "%s", code);
	(void)snprintf(verdict.reason, sizeof(verdict.reason), "%s", reason);
	return answer(slot, &verdict, err);
}

/* The process is out of step with its messages: what it writes next could be taken as the answer to another one. */
static void restart(struct slot *slot, const char *why)
{
	log_warn("command_killed", LOG_STR("what", why), LOG_INT("pid", slot->process.pid),
		LOG_STR("next", "the process is started again"));
	process_kill(&slot->process);
}

/* Answers with the line that ends at `end`, and removes it from the output. */
static int take_line(struct slot *slot, struct slot_context *context, size_t end, struct err *err)
{
	struct buf *output = &slot->process.output;
	const char *id = inbox_delivery_event_id(slot->delivery);
	struct bridge_verdict verdict;
	const int r = answer_line_read(
		context->stream, (struct bytes){ output->data, end }, bytes_of(id), &verdict, err);
	int answered;

	if (r < 0)
		return r;
	answered = answer(slot, &verdict, err);
	if (answered != 0)
		return answered;
	memmove(output->data, output->data + end + 1, output->length - end - 1);
	buf_cut(output, output->length - end - 1);
	if (r == ANSWER_LINE_WRONG)
		restart(slot, "the process has written a line that is not a verdict");
	else
		slot->failures = 0;
	return 0;
}

/* Its pipes close a moment before a process ends. One that goes on without them cannot take part any more. */
static bool is_cut_off(struct slot *slot)
{
	const int64_t now_ms = clock_now_ms();

	if (slot->process.in >= 0 && slot->process.out >= 0) {
		slot->cut_off_ms = 0;
		return false;
	}
	if (slot->cut_off_ms == 0)
		slot->cut_off_ms = now_ms;
	return now_ms - slot->cut_off_ms >= CUT_OFF_MS;
}

static int fail_message(struct slot *slot, const char *why, struct err *err)
{
	const int r = slot->delivery == NULL ? 0 : answer_failure(slot, "PROTOCOL", why, err);

	if (r == 0)
		restart(slot, why);
	return r;
}

static int take_answer(struct slot *slot, struct slot_context *context, struct err *err)
{
	const struct buf *output = &slot->process.output;
	const char *end = output->length == 0 ? NULL : memchr(output->data, '\n', output->length);
	int r = 0;

	if (!slot_is_alive(slot))
		return 0;
	if (slot->delivery != NULL && end != NULL)
		r = take_line(slot, context, (size_t)(end - output->data), err);
	else if (slot->delivery != NULL && slot->process.overflow)
		r = fail_message(slot, "the command wrote an answer line of more than 1 MiB", err);
	if (r != 0 || !slot_is_alive(slot))
		return r;
	if (slot->delivery == NULL && output->length > 0)
		restart(slot, "the process has written something without a message to answer");
	else if ((slot->delivery != NULL || !context->stopping) && is_cut_off(slot))
		r = fail_message(slot, "the command closed its stdin or stdout, and goes on", err);
	return r;
}

/* --- Messages ---------------------------------------------------------------------------------- */

static void begin_time(struct slot *slot, const struct exec_options *options)
{
	const int64_t now_ms = clock_now_ms();

	slot->deadline_ms = intake_deadline_ms(slot->delivery);
	slot->span_ms = slot->deadline_ms - now_ms;
	if (slot->span_ms < LEAST_SPAN_MS)
		slot->span_ms = LEAST_SPAN_MS;
	slot->extend_at_ms = options->extend_ms == 0 ? 0 : now_ms + slot->span_ms / EXTENSIONS;
	slot->extend_end_ms = now_ms + options->extend_ms;
}

/* The message comes again and spends no attempt, because the command has not seen it. */
static int put_off_message(struct slot *slot, const char *why, struct err *err)
{
	struct bridge_verdict verdict = { .status = BRIDGE_SNOOZE,
		.delay_ms = SLOT_START_AGAIN_MS };

	bridge_text_put(verdict.reason, sizeof(verdict.reason), bytes_of(why));
	log_warn("command_not_started", LOG_STR("error", why),
		LOG_INT("retry_in_ms", SLOT_START_AGAIN_MS),
		LOG_STR("next", "the message comes again, and spends no attempt"));
	return answer(slot, &verdict, err);
}

static void write_start_error(
	const struct slot *slot, const struct slot_context *context, struct err *out)
{
	(void)err_set(out, FAULT_INTERNAL, "cannot start %s: %s", context->options->command[0],
		strerror(slot->process.start_error));
}

/* Nothing waits for a start, so the slot learns later that there was none. */
static int end_start(struct slot *slot, const struct slot_context *context, struct err *err)
{
	struct err failed = ERR_INIT;

	if (process_start_hangs(&slot->process)) {
		process_kill(&slot->process);
		slot->process.start_error = ETIMEDOUT;
	}
	if (slot->process.start_error == 0 || slot->delivery == NULL)
		return 0;
	write_start_error(slot, context, &failed);
	return put_off_message(slot, failed.text, err);
}

static int start_for_message(struct slot *slot, struct slot_context *context, struct err *err)
{
	struct err failed = ERR_INIT;
	int r = environment_set(&context->environment, environ, &context->event, err);

	if (r != 0)
		return r;
	if (process_start(&slot->process, context->options->command, context->environment.variables,
		    &failed) == 0)
		return 0;
	return put_off_message(slot, failed.text, err);
}

int slot_begin(struct slot *slot, struct slot_context *context, struct inbox_delivery *delivery,
	struct err *err)
{
	const bool lines = context->options->lines;
	const struct buf *json = &context->event.json;
	int r = event_read(&context->event, delivery, err);

	slot->delivery = delivery;
	if (r == 0 && !lines)
		r = start_for_message(slot, context, err);
	if (r != 0 || slot->delivery == NULL)
		return r;
	begin_time(slot, context->options);
	if (lines)
		last_line_reset(&slot->process.last_line);
	buf_add_char(&context->event.json, '\n');
	if (!buf_ok(json) ||
		!process_write(&slot->process, (struct bytes){ json->data, json->length }, lines))
		return err_memory(err);
	process_exchange(&slot->process);
	return 0;
}

static void log_kill(const struct slot *slot, const char *why)
{
	log_warn("command_killed", LOG_STR("what", why),
		LOG_STR("event_id", inbox_delivery_event_id(slot->delivery)),
		LOG_INT("pid", slot->process.pid));
}

/* Returns true if the message is not this slot's any more. */
static bool obey_cancel(struct slot *slot)
{
	const char *reason = inbox_delivery_cancelled(slot->delivery);

	if (reason == NULL)
		return false;
	log_kill(slot, reason);
	process_kill(&slot->process);
	/* It only releases the delivery: nothing is sent for a cancelled one. */
	(void)inbox_delivery_retry(slot->delivery, -1, NULL, NULL);
	slot->delivery = NULL;
	return true;
}

static int extend(struct slot *slot, int64_t now_ms, struct err *err)
{
	const int64_t left_ms = slot->extend_end_ms - now_ms;
	const int64_t extension_ms = left_ms < slot->span_ms ? left_ms : slot->span_ms;

	slot->extend_at_ms = 0;
	/* The last extension must not shorten the deadline. */
	if (now_ms + extension_ms <= slot->deadline_ms)
		return 0;
	if (inbox_delivery_extend(slot->delivery, extension_ms) == INBOX_ERROR_MEMORY)
		return err_memory(err);
	slot->deadline_ms = now_ms + extension_ms;
	slot->extend_at_ms = now_ms + slot->span_ms / EXTENSIONS;
	return 0;
}

static int check_time(struct slot *slot, struct err *err)
{
	const int64_t now_ms = clock_now_ms();
	int r = 0;

	if (slot->extend_at_ms != 0 && now_ms >= slot->extend_at_ms)
		r = extend(slot, now_ms, err);
	if (r != 0 || now_ms < slot->deadline_ms + LATE_MS)
		return r;
	log_kill(slot, "timeout");
	process_kill(&slot->process);
	return answer_failure(slot, "TIMEOUT", "the command did not end in time", err);
}

int slot_advance(struct slot *slot, struct slot_context *context, struct err *err)
{
	int r = 0;

	if (slot->process.pid == 0)
		return 0;
	process_exchange(&slot->process);
	if (slot->delivery != NULL && obey_cancel(slot))
		return 0;
	r = end_start(slot, context, err);
	if (r != 0 || slot->process.start_error != 0)
		return r;
	if (context->options->lines)
		r = take_answer(slot, context, err);
	return r == 0 && slot->delivery != NULL ? check_time(slot, err) : r;
}

/* --- Starts and ends --------------------------------------------------------------------------- */

static void plan_start(struct slot *slot)
{
	const int64_t delay_ms =
		backoff_delay_ms(RESTART_MS, RESTART_MAX_MS, slot->failures, random_u64());

	slot->start_at_ms = clock_now_ms() + delay_ms;
	slot->failures++;
}

static void log_start_planned(const struct slot *slot, const struct err *failed)
{
	log_warn("command_not_started", LOG_STR("error", failed->text),
		LOG_INT("retry_in_ms", slot->start_at_ms - clock_now_ms()));
}

int slot_start_when_due(struct slot *slot, struct slot_context *context, struct err *err)
{
	struct err failed = ERR_INIT;

	(void)err;
	if (slot->process.pid != 0 || context->stopping || clock_now_ms() < slot->start_at_ms)
		return 0;
	slot->start_at_ms = 0;
	slot->cut_off_ms = 0;
	if (process_start(&slot->process, context->options->command, context->environment.variables,
		    &failed) == 0)
		return 0;
	plan_start(slot);
	log_start_planned(slot, &failed);
	return 0;
}

static bool is_blank(const struct buf *output)
{
	for (size_t i = 0; i < output->length; i++) {
		if (strchr(" \t\r\n", output->data[i]) == NULL || output->data[i] == '\0')
			return false;
	}
	return true;
}

static int answer_exit_code(struct slot *slot, const struct slot_context *context, struct err *err)
{
	struct process *process = &slot->process;
	struct bridge_verdict verdict;

	exit_status_verdict(process->ending, context->options->settles,
		last_line_end(&process->last_line), &verdict);
	/* An output that was cut is longer than BRIDGE_RESULT_MAX, so it is never taken for JSON. */
	if (verdict.status == BRIDGE_DONE && !is_blank(&process->output))
		verdict.result = (struct bytes){ process->output.data, process->output.length };
	return answer(slot, &verdict, err);
}

static int end_of_lines(struct slot *slot, struct slot_context *context, struct err *err)
{
	struct process *process = &slot->process;
	struct bridge_verdict verdict;
	struct err failed = ERR_INIT;
	char *end = process->output.length == 0
			    ? NULL
			    : memchr(process->output.data, '\n', process->output.length);
	int r = 0;

	/* An answer that was written before the end counts. */
	if (slot->delivery != NULL && end != NULL && !process->killed)
		r = take_line(slot, context, (size_t)(end - process->output.data), err);
	if (r == 0 && slot->delivery != NULL) {
		exit_status_failure(process->ending, " before it answered",
			last_line_end(&process->last_line), &verdict);
		r = answer(slot, &verdict, err);
	}
	if (context->stopping)
		return r;
	plan_start(slot);
	if (process->start_error != 0) {
		write_start_error(slot, context, &failed);
		log_start_planned(slot, &failed);
	} else if (!process->killed) {
		log_warn("command_ended",
			LOG_INT(process->ending.signalled ? "signal" : "exit_code",
				process->ending.number),
			LOG_INT("restart_in_ms", slot->start_at_ms - clock_now_ms()));
	}
	return r;
}

int slot_process_ended(struct slot *slot, struct slot_context *context, struct err *err)
{
	const int r = end_start(slot, context, err);

	if (r != 0)
		return r;
	if (context->options->lines)
		return end_of_lines(slot, context, err);
	return slot->delivery == NULL ? 0 : answer_exit_code(slot, context, err);
}

int64_t slot_due_ms(const struct slot *slot)
{
	if (slot->process.pid == 0)
		return slot->start_at_ms == 0 ? INT64_MAX : slot->start_at_ms;
	if (slot->delivery == NULL)
		return INT64_MAX;
	if (slot->extend_at_ms != 0 && slot->extend_at_ms < slot->deadline_ms + LATE_MS)
		return slot->extend_at_ms;
	return slot->deadline_ms + LATE_MS;
}
