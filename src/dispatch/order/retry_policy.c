/* See retry_policy.h. Every verdict starts with the counts of the message unchanged. Then the one rule that applies
 * changes it. */
#include "dispatch/order/retry_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/numbers.h"
#include "base/time/backoff.h"

/* A snooze and a skip spend no attempt. Without a minimum a handler could repeat them in an endless, fast loop. */
#define SNOOZE_LEAST_MS 100

static char *copy(struct bytes text)
{
	return text.data == NULL ? NULL : strndup(text.data, text.length);
}

void retry_policy_clear(struct entry *entry)
{
	free(entry->texts.error);
	free(entry->texts.error_code);
	free(entry->texts.result);
	free(entry->texts.emit);
	entry->texts = (struct verdict_texts){ NULL };
}

/* Starts a verdict that changes no count. The crash count is the one from before it was raised for a delivery alone, so
 * any verdict but a lost connection takes the increase back. */
static void begin(struct entry *entry, enum settle_outcome outcome, enum entry_end end)
{
	const struct message *message = entry->message;

	retry_policy_clear(entry);
	entry->end = end;
	entry->verdict = (struct settle_row){
		.seq = message->seq,
		.delivery_count = message->delivery_count,
		.outcome = outcome,
		.retry_count = message->retry_count,
		.crash_count = message->crash_count,
	};
}

static void set_error(struct entry *entry, char *error, char *code)
{
	entry->texts.error = error;
	entry->texts.error_code = code;
	entry->verdict.error = error;
	entry->verdict.error_code = code;
}

static void fail_attempt(
	const struct retry_rules *rules, struct entry *entry, int64_t delay_ms, enum entry_end end)
{
	int attempt = entry->message->retry_count;

	begin(entry, SETTLE_WAITING, end);
	entry->verdict.retry_count = attempt + 1;
	if (attempt + 1 >= rules->max_attempts) {
		entry->verdict.outcome = SETTLE_DEAD;
		if (end == END_RETRY)
			entry->end = END_DEAD;
		return;
	}
	entry->verdict.delay_ms = delay_ms >= 0
					  ? delay_ms
					  : backoff_delay_ms(rules->backoff_ms,
						    rules->backoff_max_ms, attempt, random_u64());
}

static void done(struct entry *entry, const struct verdict *verdict)
{
	begin(entry, SETTLE_PROCESSED, END_DONE);
	entry->texts.result = copy(verdict->result);
	entry->texts.emit = copy(verdict->emit);
	entry->verdict.result = bytes_of(entry->texts.result);
	entry->verdict.emit = bytes_of(entry->texts.emit);
	entry->verdict.plain = entry->texts.result == NULL && entry->texts.emit == NULL &&
			       !entry->raised && !entry->message->suspect &&
			       entry->message->crash_count == 0;
}

static void snooze(const struct retry_rules *rules, struct entry *entry, int64_t delay_ms)
{
	begin(entry, SETTLE_WAITING, END_SNOOZE);
	if (delay_ms < 0)
		delay_ms = rules->backoff_ms;
	entry->verdict.delay_ms = delay_ms > SNOOZE_LEAST_MS ? delay_ms : SNOOZE_LEAST_MS;
}

/* True when no text of the verdict is missing for lack of memory. */
static bool has_texts(const struct entry *entry, const struct verdict *verdict)
{
	switch (verdict->status) {
	case STATUS_DONE:
		return verdict->result.data == NULL || entry->texts.result != NULL;
	case STATUS_RETRY:
	case STATUS_TIMEOUT:
	case STATUS_DEAD:
	case STATUS_SNOOZE:
		return (verdict->reason.data == NULL || entry->texts.error != NULL) &&
		       (verdict->code.data == NULL || entry->texts.error_code != NULL);
	case STATUS_SKIPPED:
		return true;
	case STATUS_SETTLED:
		return entry->texts.error != NULL && entry->texts.error_code != NULL;
	}
	return true;
}

int retry_policy_answer(const struct retry_rules *rules, struct entry *entry,
	const struct verdict *verdict, struct err *err)
{
	switch (verdict->status) {
	case STATUS_DONE:
		done(entry, verdict);
		if (verdict->emit.data != NULL && entry->texts.emit == NULL)
			retry_policy_unemitted(rules, entry, "out of memory for the events");
		break;
	case STATUS_RETRY:
		fail_attempt(rules, entry, verdict->delay_ms, END_RETRY);
		break;
	case STATUS_TIMEOUT:
		fail_attempt(rules, entry, -1, END_TIMEOUT);
		break;
	case STATUS_DEAD:
		begin(entry, SETTLE_DEAD, END_DEAD);
		entry->verdict.retry_count = entry->message->retry_count + 1;
		break;
	case STATUS_SNOOZE:
		snooze(rules, entry, verdict->delay_ms);
		break;
	case STATUS_SETTLED:
		/* The handler says that its own transaction called inbox.complete(). If that was committed, the claim
		 * no longer matches and the settle finds the row completed. If it was not, this verdict counts as a
		 * failure. */
		fail_attempt(rules, entry, -1, END_SETTLED);
		set_error(entry,
			strdup("the handler said settled, but inbox.complete() was not committed"),
			strdup("NOT_SETTLED"));
		break;
	case STATUS_SKIPPED:
		retry_policy_return(entry);
		entry->verdict.delay_ms = SNOOZE_LEAST_MS;
		break;
	}
	if (verdict->status == STATUS_RETRY || verdict->status == STATUS_TIMEOUT ||
		verdict->status == STATUS_DEAD || verdict->status == STATUS_SNOOZE)
		set_error(entry, copy(verdict->reason), copy(verdict->code));
	return has_texts(entry, verdict) ? 0 : err_memory(err);
}

void retry_policy_unemitted(const struct retry_rules *rules, struct entry *entry, const char *why)
{
	fail_attempt(rules, entry, -1, END_RETRY);
	set_error(entry, strdup(why), strdup("EMIT"));
}

void retry_policy_timeout(const struct retry_rules *rules, struct entry *entry, int64_t timeout_ms)
{
	char words[96];

	fail_attempt(rules, entry, -1, END_TIMEOUT);
	(void)snprintf(words, sizeof(words), "the handler gave no answer within %lld ms",
		(long long)timeout_ms);
	set_error(entry, strdup(words), strdup("TIMEOUT"));
}

void retry_policy_lost(const struct retry_rules *rules, struct entry *entry)
{
	char words[112];

	begin(entry, SETTLE_WAITING, END_CRASH);
	entry->verdict.suspect = true;
	if (!entry->raised)
		return;
	entry->verdict.crash_count = entry->message->crash_count + 1;
	if (entry->verdict.crash_count >= rules->max_crashes)
		entry->verdict.outcome = SETTLE_DEAD;
	(void)snprintf(words, sizeof(words),
		"its handler's connection ended %d time%s while it was delivered alone",
		entry->verdict.crash_count, plural(entry->verdict.crash_count));
	set_error(entry, strdup(words), strdup("CRASH"));
}

void retry_policy_return(struct entry *entry)
{
	begin(entry, SETTLE_WAITING, END_RETURNED);
	entry->verdict.suspect = entry->message->suspect;
}

void retry_policy_park(struct entry *entry)
{
	begin(entry, SETTLE_PARKED, END_RETURNED);
	entry->verdict.suspect = entry->message->suspect;
}

void retry_policy_follow(struct entry *entry, const struct entry *first)
{
	bool later = first->verdict.outcome == SETTLE_PARKED ||
		     (first->verdict.outcome == SETTLE_WAITING &&
			     (first->end != END_RETURNED || first->verdict.delay_ms > 0));

	if (later)
		retry_policy_park(entry);
	else
		retry_policy_return(entry);
	entry->verdict.suspect |= first->end == END_TIMEOUT || first->end == END_CRASH;
}

const char *retry_policy_outcome(enum entry_end end)
{
	static const char *const names[] = {
		[END_DONE] = "done",
		[END_RETRY] = "retry",
		[END_DEAD] = "dead",
		[END_SNOOZE] = "snooze",
		[END_SETTLED] = "settled",
		[END_TIMEOUT] = "timeout",
		[END_CRASH] = "crash",
		[END_RETURNED] = NULL,
	};

	return names[end];
}
