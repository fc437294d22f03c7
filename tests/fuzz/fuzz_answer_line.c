/*
 * Lines that a command of `inboxd exec --lines` may write: each is a verdict whose texts can be logged and stored, or is
 * refused as a retry. What was read before makes no difference, and a result is JSON.
 */
#include "bridge/exec/answer_line.h"
#include "demand.h"

static struct json_stream *new_stream(void)
{
	static const struct json_limits limits = { .max_depth = JSON_DEEPEST, .any_space = true };
	struct json_stream *stream = NULL;

	demand(json_stream_new_with(&stream, &limits, NULL) == 0);
	return stream;
}

static void check_verdict(int r, const struct bridge_verdict *verdict)
{
	demand(r == 0 || r == ANSWER_LINE_WRONG);
	demand(is_plain_text(verdict->reason) && is_plain_text(verdict->code));
	demand(verdict->delay_ms >= -1);
	if (r == ANSWER_LINE_WRONG)
		demand(verdict->status == BRIDGE_RETRY && strcmp(verdict->code, "PROTOCOL") == 0 &&
			verdict->result.data == NULL && verdict->delay_ms == -1);
}

static void check_result(struct bytes result)
{
	struct json_stream *stream = new_stream();

	if (result.data != NULL)
		demand(json_stream_read(stream, result, NULL, NULL, NULL) == 0);
	json_stream_free(stream);
}

/* The line has no byte around it, so reading beyond it is detected. */
static void check_line(struct json_stream *used, const uint8_t *text, size_t length)
{
	struct json_stream *fresh = new_stream();
	struct bridge_verdict verdict;
	struct bridge_verdict again;
	char *copy = malloc(length == 0 ? 1 : length);
	int r;

	demand(copy != NULL);
	memcpy(copy, text, length);
	r = answer_line_read(
		used, (struct bytes){ copy, length }, BYTES_LITERAL("A7"), &verdict, NULL);
	check_verdict(r, &verdict);
	check_result(verdict.result);
	demand(answer_line_read(fresh, (struct bytes){ copy, length }, BYTES_LITERAL("A7"), &again,
		       NULL) == r);
	demand(verdict.status == again.status && verdict.delay_ms == again.delay_ms);
	demand(strcmp(verdict.reason, again.reason) == 0 && strcmp(verdict.code, again.code) == 0);
	json_stream_free(fresh);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_stream *used = new_stream();

	while (size > 0) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t length = end == NULL ? size : (size_t)(end - data);

		check_line(used, data, length);
		if (end == NULL)
			break;
		data += length + 1;
		size -= length + 1;
	}
	json_stream_free(used);
	return 0;
}
