/* See verdict.h. */
#include "bridge/verdict.h"

#include "base/log.h"
#include "base/text/utf8.h"

static const char *const names[BRIDGE_STATUSES] = {
	[BRIDGE_DONE] = "done",
	[BRIDGE_RETRY] = "retry",
	[BRIDGE_DEAD] = "dead",
	[BRIDGE_SNOOZE] = "snooze",
	[BRIDGE_SETTLED] = "settled",
	[BRIDGE_SKIPPED] = "skipped",
};

bool bridge_status_parse(struct bytes name, enum bridge_status *out)
{
	for (int i = 0; i < BRIDGE_STATUSES; i++) {
		if (bytes_equal(name, bytes_of(names[i]))) {
			*out = (enum bridge_status)i;
			return true;
		}
	}
	return false;
}

void bridge_text_put(char *at, size_t room, struct bytes text)
{
	const size_t length = utf8_fit(text.data, text.length, room - 1);

	for (size_t i = 0; i < length; i++) {
		const unsigned char c = ((const unsigned char *)text.data)[i];

		at[i] = c < ' ' || c == 0x7f ? ' ' : (char)c;
	}
	at[length] = '\0';
}

static int send_done(struct inbox_delivery *delivery, struct bytes result)
{
	int r = INBOX_ERROR_ARGUMENT;

	if (result.data != NULL && result.length <= BRIDGE_RESULT_MAX)
		r = inbox_delivery_done_with(delivery, result.data, result.length);
	if (r != INBOX_ERROR_ARGUMENT)
		return r;
	if (result.data != NULL)
		log_warn("result_not_stored",
			LOG_STR("event_id", inbox_delivery_event_id(delivery)),
			LOG_INT("bytes", result.length),
			LOG_STR("error", "it is not one JSON value, or it is too long"),
			LOG_STR("next", "the message is done, without a result"));
	return inbox_delivery_done(delivery);
}

static int send_done_with_events(
	struct inbox_delivery *delivery, const struct bridge_verdict *verdict)
{
	const struct bytes emit = verdict->emit;
	const int r =
		emit.data == NULL ? 0 : inbox_delivery_emit_json(delivery, emit.data, emit.length);

	if (r == INBOX_ERROR_ARGUMENT)
		return inbox_delivery_retry(
			delivery, -1, "emit is not an array of at most 1000 objects", "PROTOCOL");
	return r < 0 ? r : send_done(delivery, verdict->result);
}

static int send_verdict(struct inbox_delivery *delivery, const struct bridge_verdict *verdict)
{
	const char *reason = verdict->reason[0] == '\0' ? NULL : verdict->reason;
	const char *code = verdict->code[0] == '\0' ? NULL : verdict->code;

	switch (verdict->status) {
	case BRIDGE_DONE:
		return send_done_with_events(delivery, verdict);
	case BRIDGE_DEAD:
		return inbox_delivery_dead(delivery, reason, code);
	case BRIDGE_SNOOZE:
		return inbox_delivery_snooze_with(delivery, verdict->delay_ms, reason, code);
	case BRIDGE_SETTLED:
		return inbox_delivery_settled(delivery);
	case BRIDGE_SKIPPED:
		return inbox_delivery_skipped(delivery);
	default:
		return inbox_delivery_retry(delivery, verdict->delay_ms, reason, code);
	}
}

int bridge_answer(
	struct inbox_delivery *delivery, const struct bridge_verdict *verdict, struct err *err)
{
	return send_verdict(delivery, verdict) < 0 ? err_memory(err) : 0;
}
