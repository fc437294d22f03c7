/*
 * Turns the answer of a handler (a result, an error, or the entries of a batch) into verdicts. An answer that names a
 * delivery always ends it. If the answer is malformed, the verdict is a retry, and its reason explains the mistake.
 * Otherwise the delivery would stay open until its deadline, and the author of the handler would see a timeout.
 */
#include <string.h>

#include "dispatch/protocol/draft.h"

static const char *const statuses[] = {
	[STATUS_DONE] = "done",
	[STATUS_RETRY] = "retry",
	[STATUS_DEAD] = "dead",
	[STATUS_SNOOZE] = "snooze",
	[STATUS_SETTLED] = "settled",
	[STATUS_SKIPPED] = "skipped",
};

#define STATUSES    (sizeof(statuses) / sizeof(statuses[0]))
#define STATUS_LIST "done, retry, dead, snooze, settled or skipped"

static struct verdict malformed(const struct draft_verdict *answer, const char *why)
{
	return (struct verdict){
		.status = STATUS_RETRY,
		.delay_ms = -1,
		.entry = answer->entry,
		.reason = bytes_of(why),
		.code = bytes_of("PROTOCOL"),
	};
}

/* Why an answer with this status cannot emit. NULL: it can. */
static const char *emit_misfit(enum verdict_status status)
{
	if (status == STATUS_SETTLED)
		return "settled cannot emit: give the events to inbox.complete(claim, result, "
		       "emit) in your transaction";
	return status == STATUS_DONE ? NULL : "only done can emit: the events would be lost";
}

static struct verdict verdict_of(struct line_memory *memory, const struct draft_verdict *answer)
{
	size_t status = 0;
	char *words;

	if (answer->problem != NULL)
		return malformed(answer, answer->problem);
	if (answer->status == NULL)
		return malformed(answer, "the answer has no status: it must be " STATUS_LIST);
	while (status < STATUSES && strcmp(statuses[status], answer->status) != 0)
		status++;
	if (status == STATUSES) {
		words = line_alloc(memory, PROTOCOL_WORDS);
		if (words != NULL)
			protocol_words(words, "unknown status \"%s\": it must be " STATUS_LIST,
				protocol_quote(memory, answer->status));
		return malformed(answer, words);
	}
	if (answer->emit.data != NULL && emit_misfit((enum verdict_status)status) != NULL)
		return malformed(answer, emit_misfit((enum verdict_status)status));
	return (struct verdict){
		.status = (enum verdict_status)status,
		.delay_ms = answer->delay_ms,
		.entry = answer->entry,
		.reason = answer->reason,
		.code = answer->code,
		.result = status == STATUS_DONE ? answer->result : (struct bytes){ NULL, 0 },
		.emit = answer->emit,
		.note = answer->note,
	};
}

static struct verdict verdict_of_error(const struct draft_verdict *answer)
{
	if (answer->problem != NULL)
		return malformed(answer, answer->problem);
	/* An error is a failed attempt. A handler that wants more says it with a result. */
	return (struct verdict){
		.status = STATUS_RETRY,
		.delay_ms = -1,
		.reason = answer->reason.data == NULL ? bytes_of("an error without a message")
						      : answer->reason,
		.code = answer->code.data == NULL ? bytes_of("HANDLER_ERROR") : answer->code,
		.note = answer->note,
	};
}

/* Why the answer as a whole is malformed. NULL: it is not. */
static const char *misfit(const struct draft_answer *answer)
{
	if (answer->has_result && answer->has_error)
		return "the answer has both a result and an error";
	if (answer->result_is_null && !answer->has_error)
		return "the result must be an object with a status, not null";
	if (answer->has_entries && answer->whole.status != NULL)
		return "the result has both a status and entries";
	if (answer->has_entries && answer->whole.emit.data != NULL)
		return "the result has both events and entries: each entry has its own emit";
	return NULL;
}

void draft_answer(struct draft *draft, struct line *out)
{
	struct draft_answer *answer = &draft->answer;
	struct verdict *verdicts =
		line_alloc(draft->memory, (answer->entry_count + 1) * sizeof(*verdicts));

	if (verdicts == NULL)
		return;
	if (answer->whole.problem == NULL)
		answer->whole.problem = misfit(answer);
	out->kind = LINE_ANSWER;
	out->delivery = draft->id_text;
	out->verdicts = verdicts;
	out->batch_answer = answer->has_entries && answer->whole.problem == NULL;
	if (!out->batch_answer) {
		verdicts[0] = answer->has_error ? verdict_of_error(&answer->whole)
						: verdict_of(draft->memory, &answer->whole);
		out->verdict_count = 1;
		return;
	}
	for (size_t i = 0; i < answer->entry_count; i++) {
		/* An entry without an id names no delivery, which is retried as one without a verdict. */
		if (answer->entries[i].entry.data != NULL)
			verdicts[out->verdict_count++] =
				verdict_of(draft->memory, &answer->entries[i]);
	}
}
