/*
 * What a handler says, carried to the row it is settled with: whatever the answer, each verdict gives
 * a row the table can take, and PostgreSQL is never asked to store what it refuses. The parser's
 * own opinion of what jsonb takes is checked against the decoded texts.
 */
#include "demand.h"
#include "dispatch/order/retry_policy.h"
#include "dispatch/protocol/storable.h"
#include "json/stream.h"
#include "json/text.h"

static const struct retry_rules rules = {
	.max_attempts = 3, .backoff_ms = 1000, .backoff_max_ms = 60000, .max_crashes = 3
};

struct strings_seen {
	struct buf scratch;
	bool nul_or_half;
};

static bool visit(void *arg, const struct json_token *token)
{
	struct strings_seen *seen = arg;
	struct bytes text;

	if (token->kind != JSON_STRING && token->kind != JSON_KEY)
		return true;
	buf_reset(&seen->scratch);
	if (json_text_of(token->raw, &seen->scratch, &text, NULL) != 0 ||
		(text.length > 0 && memchr(text.data, '\0', text.length) != NULL))
		seen->nul_or_half = true;
	return true;
}

/* The same question asked another way: are there strings in it that are no text? */
static void check_refusal(struct json_stream *stream, struct bytes json)
{
	struct strings_seen seen = { .scratch = BUF_INIT };
	const char *why;

	if (json_stream_read(stream, json, visit, &seen, NULL) == 0) {
		why = json_refusal(json);
		demand(!seen.nul_or_half || why != NULL);
		demand(why == NULL || seen.nul_or_half || strstr(why, "number") != NULL ||
			strstr(why, "longer") != NULL);
	}
	buf_fini(&seen.scratch);
}

static void check_text(const char *text, size_t max)
{
	demand(text == NULL || (strlen(text) <= max && text_refusal(bytes_of(text)) == NULL));
}

static void check_row(const struct entry *entry, const struct verdict *verdict)
{
	const struct settle_row *row = &entry->verdict;
	int spent = row->retry_count - entry->message->retry_count;

	demand(row->seq == entry->message->seq);
	demand(row->delivery_count == entry->message->delivery_count);
	demand(row->delay_ms >= 0 && row->delay_ms <= PROTOCOL_MAX_DELAY_MS);
	demand(row->crash_count == entry->message->crash_count && !row->suspect);
	demand(spent == (verdict->status == STATUS_RETRY || verdict->status == STATUS_SETTLED ||
				verdict->status == STATUS_DEAD));
	demand(row->outcome != SETTLE_WAITING || row->retry_count < rules.max_attempts);
	demand((row->outcome == SETTLE_PROCESSED) == (verdict->status == STATUS_DONE));
	demand(!row->plain ||
		(row->outcome == SETTLE_PROCESSED && row->result.data == NULL &&
			row->emit.data == NULL && row->error == NULL && row->error_code == NULL));
	demand(bytes_equal(row->emit, verdict->emit));
	demand(row->result.data == NULL ||
		(row->outcome == SETTLE_PROCESSED && json_refusal(row->result) == NULL));
	check_text(row->error, PROTOCOL_MAX_REASON);
	check_text(row->error_code, PROTOCOL_MAX_CODE);
	demand((retry_policy_outcome(entry->end) == NULL) == (verdict->status == STATUS_SKIPPED));
}

static void check_verdict(const struct verdict *verdict)
{
	struct message message = { .seq = 9001, .delivery_count = 2, .crash_count = 1 };
	struct entry entry = { .message = &message };

	for (message.retry_count = 0; message.retry_count < rules.max_attempts;
		message.retry_count++) {
		demand(retry_policy_answer(&rules, &entry, verdict, NULL) == 0);
		check_row(&entry, verdict);
	}
	retry_policy_clear(&entry);
}

static void check_same(const struct line *a, const struct line *b)
{
	demand(a->kind == b->kind && a->verdict_count == b->verdict_count);
	demand(same_text(a->delivery, b->delivery) && a->batch_answer == b->batch_answer);
	for (size_t i = 0; i < a->verdict_count; i++) {
		demand(a->verdicts[i].status == b->verdicts[i].status);
		demand(a->verdicts[i].delay_ms == b->verdicts[i].delay_ms);
		demand(bytes_equal(a->verdicts[i].entry, b->verdicts[i].entry));
		demand(bytes_equal(a->verdicts[i].reason, b->verdicts[i].reason));
		demand(bytes_equal(a->verdicts[i].code, b->verdicts[i].code));
		demand(bytes_equal(a->verdicts[i].result, b->verdicts[i].result));
		demand(bytes_equal(a->verdicts[i].emit, b->verdicts[i].emit));
	}
}

static void check_line(struct protocol_parser *parser, struct bytes text)
{
	struct protocol_parser *fresh = NULL;
	struct line line;
	struct line again;

	demand(protocol_parse(parser, text, &line, NULL) == 0);
	if (line.kind != LINE_ANSWER)
		return;
	demand(line.verdict_count <= PROTOCOL_MAX_BATCH);
	for (size_t i = 0; i < line.verdict_count; i++)
		check_verdict(&line.verdicts[i]);
	demand(protocol_parser_new(&fresh, NULL) == 0);
	demand(protocol_parse(fresh, text, &again, NULL) == 0);
	check_same(&line, &again);
	protocol_parser_free(fresh);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct protocol_parser *parser;
	static struct json_stream *stream;

	if (parser == NULL && protocol_parser_new(&parser, NULL) != 0)
		abort();
	if (stream == NULL && json_stream_new(&stream, NULL) != 0)
		abort();
	check_refusal(stream, (struct bytes){ data, size });
	check_line(parser, (struct bytes){ data, size });
	return 0;
}
