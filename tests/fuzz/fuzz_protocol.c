/*
 * Whatever bytes a client sends as a line: the parser must end in a struct that keeps its header's
 * promises, and the reply to a broken line must be a line of its own. A crash found here becomes a
 * row of tests/unit/test_protocol.c.
 */
#include "demand.h"
#include "dispatch/protocol/protocol.h"
#include "dispatch/protocol/storable.h"

static void demand_text(struct bytes text, size_t max)
{
	demand(text.data == NULL || (text.length <= max && text_refusal(text) == NULL));
}

static void check_verdict(const struct verdict *verdict, bool of_batch)
{
	demand(verdict->status <= STATUS_SKIPPED);
	demand(verdict->delay_ms >= -1 && verdict->delay_ms <= PROTOCOL_MAX_DELAY_MS);
	demand((verdict->entry.data != NULL) == of_batch);
	demand_text(verdict->reason, PROTOCOL_MAX_REASON);
	demand_text(verdict->code, PROTOCOL_MAX_CODE);
	demand(verdict->emit.data == NULL ||
		(verdict->status == STATUS_DONE && ((const char *)verdict->emit.data)[0] == '[' &&
			((const char *)verdict->emit.data)[verdict->emit.length - 1] == ']'));
	if (verdict->result.data == NULL)
		return;
	demand(json_refusal(verdict->result) == NULL);
	demand(memchr(verdict->result.data, '\n', verdict->result.length) == NULL);
}

static void check_broken(struct protocol_parser *parser, const struct line *line)
{
	struct buf reply = BUF_INIT;
	struct line again;

	demand(line->error_code < 0 && line->error_text[0] != '\0');
	protocol_add_error(&reply, line->id, line->error_code, line->error_text);
	demand(buf_ok(&reply) && reply.data[reply.length - 1] == '\n');
	demand(memchr(reply.data, '\n', reply.length - 1) == NULL);
	/* What goes out is a line of the same protocol: it reads as the answer it is. */
	demand(protocol_parse(
		       parser, (struct bytes){ reply.data, reply.length - 1 }, &again, NULL) == 0);
	demand(again.kind == LINE_ANSWER);
	buf_fini(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct protocol_parser *parser;
	struct line line;

	if (parser == NULL && protocol_parser_new(&parser, NULL) != 0)
		abort();
	demand(protocol_parse(parser, (struct bytes){ data, size }, &line, NULL) == 0);
	if (line.kind == LINE_INVALID)
		check_broken(parser, &line);
	if (line.kind != LINE_ANSWER)
		return 0;
	demand(line.delivery != NULL && (line.batch_answer || line.verdict_count == 1));
	for (size_t i = 0; i < line.verdict_count; i++)
		check_verdict(&line.verdicts[i], line.batch_answer);
	return 0;
}
