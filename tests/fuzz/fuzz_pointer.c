/*
 * The first line is a JSON pointer (RFC 6901), the rest is a text. The value found is a slice of the
 * text and a scalar, and does not depend on other pointers of the same search. For a text that is not
 * JSON the stream returns consecutive tokens and reports the error at the end.
 */
#include "demand.h"
#include "json/pointer.h"
#include "json/text.h"

struct walk {
	const char *start;
	const char *at;
	const char *end;
	int depth;
};

static bool is_scalar(enum json_kind kind)
{
	return kind == JSON_STRING || kind == JSON_NUMBER || kind == JSON_BOOLEAN ||
	       kind == JSON_NULL || kind == JSON_KEY;
}

/* Tokens are slices of the text, one behind the other, and their depth is that of the brackets. */
static bool visit(void *arg, const struct json_token *token)
{
	struct walk *walk = arg;
	const char *start = token->raw.data;
	bool leaves = token->kind == JSON_OBJECT_END || token->kind == JSON_ARRAY_END;

	demand(start >= walk->at && token->raw.length > 0);
	demand(start + token->raw.length <= walk->end);
	walk->at = start + token->raw.length;
	if (leaves)
		walk->depth--;
	demand(token->depth == walk->depth);
	demand(is_scalar(token->kind) || token->raw.length == 1);
	if (!leaves && !is_scalar(token->kind))
		walk->depth++;
	return true;
}

static void check_stream(struct json_stream *stream, struct bytes text)
{
	struct walk walk = { .start = text.data, .at = text.data };
	int valid;

	walk.end = walk.start + text.length;
	valid = json_stream_read(stream, text, NULL, NULL, NULL);
	demand(valid == 0 || valid == JSON_BROKEN);
	demand(json_stream_read(stream, text, visit, &walk, NULL) == valid);
	demand(valid != 0 || walk.depth == 0);
}

static void check_value(
	struct json_stream *stream, struct bytes text, const struct json_value *value)
{
	const char *start = value->raw.data;
	struct buf scratch = BUF_INIT;
	struct bytes decoded;
	int r;

	if (start == NULL)
		return;
	demand(start >= (const char *)text.data);
	demand(start + value->raw.length <= (const char *)text.data + text.length);
	demand(value->kind != JSON_NULL && is_scalar(value->kind));
	demand(json_stream_read(stream, value->raw, NULL, NULL, NULL) == 0);
	if (value->kind != JSON_STRING)
		return;
	r = json_text_of(value->raw, &scratch, &decoded, NULL);
	demand(r == JSON_BROKEN || (r == 0 && utf8_is_valid(decoded)));
	buf_fini(&scratch);
}

static void check_pointer(
	struct json_stream *stream, struct bytes text, const struct json_pointer *pointer)
{
	const struct json_pointer twice[2] = { *pointer, *pointer };
	struct buf scratch = BUF_INIT;
	struct json_value alone;
	struct json_value pair[2];
	struct json_search search = { pointer, 1, &alone, &scratch };

	demand(json_find(stream, text, &search, NULL) == 0);
	check_value(stream, text, &alone);
	search = (struct json_search){ twice, 2, pair, &scratch };
	demand(json_find(stream, text, &search, NULL) == 0);
	for (size_t i = 0; i < 2; i++)
		demand(bytes_equal(alone.raw, pair[i].raw));
	buf_fini(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct json_stream *stream;
	const uint8_t *line_end = size == 0 ? NULL : memchr(data, '\n', size);
	struct json_pointer pointer;
	struct bytes text;
	char *words;
	int r;

	if (line_end == NULL)
		return 0;
	if (stream == NULL && json_stream_new(&stream, NULL) != 0)
		abort();
	words = strndup((const char *)data, (size_t)(line_end - data));
	demand(words != NULL);
	text = (struct bytes){ line_end + 1, size - (size_t)(line_end + 1 - data) };
	check_stream(stream, text);
	r = json_pointer_init(&pointer, words, NULL);
	demand(r == 0 || r == JSON_POINTER_MALFORMED);
	demand(r != 0 || words[0] == '\0' || words[0] == '/');
	if (r == 0)
		check_pointer(stream, text, &pointer);
	json_pointer_fini(&pointer);
	free(words);
	return 0;
}
