/*
 * Turns the answer of a handler (a result, an error, or the entries of a batch) into verdicts. An answer that names a
 * delivery always ends it. If the answer is malformed, the verdict is a retry, and its reason explains the mistake.
 * Otherwise the delivery would stay open until its deadline, and the author of the handler would see a timeout.
 */
#include <stdio.h>
#include <string.h>

#include "dispatch/protocol/protocol_draft.h"

static const char *const statuses[] = {
	[STATUS_DONE] = "done",
	[STATUS_RETRY] = "retry",
	[STATUS_DEAD] = "dead",
	[STATUS_SNOOZE] = "snooze",
	[STATUS_SETTLED] = "settled",
};

#define STATUSES    (sizeof(statuses) / sizeof(statuses[0]))
#define STATUS_LIST "done, retry, dead, snooze or settled"

static size_t find_status(const char *name)
{
	size_t i = 0;

	while (i < STATUSES && strcmp(statuses[i], name) != 0)
		i++;
	return i;
}

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

static const char *unknown_status(struct line_memory *memory, const char *status)
{
	char *words = line_alloc(memory, PROTOCOL_WORDS);

	protocol_words(words, "unknown status \"%s\": it must be " STATUS_LIST,
		protocol_quote(memory, status));
	return words;
}

static struct verdict verdict_of(struct line_memory *memory, const struct draft_verdict *answer)
{
	size_t status = answer->status == NULL ? STATUSES : find_status(answer->status);

	if (answer->problem != NULL)
		return malformed(answer, answer->problem);
	if (answer->status == NULL)
		return malformed(answer, "the answer has no status: it must be " STATUS_LIST);
	if (status == STATUSES)
		return malformed(answer, unknown_status(memory, answer->status));
	return (struct verdict){
		.status = (enum verdict_status)status,
		.delay_ms = answer->delay_ms,
		.entry = answer->entry,
		.reason = answer->reason,
		.code = answer->code,
		.result = status == STATUS_DONE ? answer->result : (struct bytes){ NULL, 0 },
		.note = answer->note,
	};
}

static struct verdict verdict_of_error(const struct draft_verdict *answer)
{
	if (answer->problem != NULL)
		return malformed(answer, answer->problem);
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
static const char *misfit(const struct draft *draft)
{
	if (draft->has_result && draft->has_error)
		return "the answer has both a result and an error";
	if (draft->result_is_null && !draft->has_error)
		return "the result must be an object with a status, not null";
	if (draft->has_entries && draft->whole.status != NULL)
		return "the result has both a status and entries";
	return NULL;
}

static size_t add_entries(
	struct line_memory *memory, const struct draft *draft, struct verdict *verdicts)
{
	size_t count = 0;

	for (size_t i = 0; i < draft->entry_count; i++) {
		if (draft->entries[i].entry.data != NULL)
			verdicts[count++] = verdict_of(memory, &draft->entries[i]);
	}
	return count;
}

void protocol_answer(struct line_memory *memory, struct draft *draft, struct line *out)
{
	struct verdict *verdicts =
		line_alloc(memory, (draft->entry_count + 1) * sizeof(struct verdict));

	if (draft->whole.problem == NULL)
		draft->whole.problem = misfit(draft);
	out->kind = LINE_ANSWER;
	out->delivery = draft->id_text;
	out->verdicts = verdicts;
	out->verdict_count = 1;
	out->batch_answer = draft->has_entries && draft->whole.problem == NULL;
	if (out->batch_answer)
		out->verdict_count = add_entries(memory, draft, verdicts);
	else if (draft->has_error)
		verdicts[0] = verdict_of_error(&draft->whole);
	else
		verdicts[0] = verdict_of(memory, &draft->whole);
}
