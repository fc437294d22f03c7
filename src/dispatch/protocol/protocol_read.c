/*
 * Reads a line as a stream. yajl calls a function for each token, and a stack of frames holds the position in the
 * protocol. Unknown members are skipped without being stored, so a line needs memory only for the members of the
 * protocol. Members that are given twice are refused: two readers of such a line could take different values.
 *
 * In a callback, yajl_get_bytes_consumed() of yajl 2.1 returns where the current token ends. Values that are kept as
 * written (ids, results) are cut out of the line with it.
 */
#include <string.h>
#include <yajl/yajl_parse.h>

#include "dispatch/protocol/protocol_draft.h"
#include "dispatch/protocol/protocol_members.h"

struct frame {
	enum json_context context;
	uint64_t seen;               /* members of this object, by their row in the table */
	const struct member *member; /* the member whose value comes next; NULL = unknown */
	const char *unknown;         /* its name, in a subscription */
};

struct reader {
	struct draft_writer writer;
	struct refusal *why;
	yajl_handle json;
	const char *text;
	size_t key_end; /* where the key of the current member ended */
	int depth;
	int skipping; /* levels of nesting inside a value that is skipped; 0 = none is */
	const struct member *captured; /* the skipped value is stored as raw text at its end */
	struct frame *top;             /* NULL outside the root object */
	struct frame frames[8];        /* more than the deepest context needs */
};

static int refuse(struct reader *reader, int code, const char *words)
{
	reader->why->code = code;
	protocol_words(reader->why->text, "%s", words);
	return 0;
}

/* The value of the current member as it was written. Empty if the line ends inside of it: yajl then ends the value
 * with a space of its own and counts from there. */
static struct bytes raw_value(const struct reader *reader)
{
	size_t start = reader->key_end;
	size_t end = yajl_get_bytes_consumed(reader->json);

	if (end < start)
		return (struct bytes){ "", 0 };
	while (start < end && strchr(" \t\r\n:", reader->text[start]) != NULL)
		start++;
	return (struct bytes){ reader->text + start, end - start };
}

static int on_scalar(struct reader *reader, enum json_kind kind, struct bytes text)
{
	struct value value = { .kind = kind, .text = text };
	const struct member *member;

	if (reader->skipping > 0)
		return 1;
	if (reader->top == NULL)
		return refuse(reader, PROTOCOL_INVALID_REQUEST, "a line must be one JSON object");
	member = reader->top->member;
	if (member == NULL && kind != KIND_NULL)
		member_unknown(&reader->writer, reader->top->context, reader->top->unknown);
	if (member == NULL || !member_admit(&reader->writer, member, kind, &reader->top->seen))
		return 1;
	if (member->key != NULL)
		value.raw = raw_value(reader);
	member->set(&reader->writer, member, &value);
	return 1;
}

static int on_null(void *context)
{
	return on_scalar(context, KIND_NULL, (struct bytes){ "null", 4 });
}

static int on_boolean(void *context, int value)
{
	(void)value;
	return on_scalar(context, KIND_BOOL, (struct bytes){ "", 0 });
}

static int on_number(void *context, const char *digits, size_t length)
{
	return on_scalar(context, KIND_NUMBER, (struct bytes){ digits, length });
}

static int on_string(void *context, const unsigned char *text, size_t length)
{
	return on_scalar(context, KIND_STRING, (struct bytes){ text, length });
}

static void enter(struct reader *reader, enum json_context context)
{
	reader->top = reader->top == NULL ? reader->frames : reader->top + 1;
	*reader->top = (struct frame){ .context = context, .member = member_element(context) };
}

/* The start of an object or array. A known one is entered or captured, an unknown one is skipped. */
static void open_member(struct reader *reader, const struct member *member, enum json_kind kind)
{
	const struct value value = { .kind = kind };

	reader->captured = NULL;
	if (member == NULL)
		member_unknown(&reader->writer, reader->top->context, reader->top->unknown);
	if (member == NULL || !member_admit(&reader->writer, member, kind, &reader->top->seen)) {
		reader->skipping = 1;
	} else if (member->captured) {
		reader->skipping = 1;
		reader->captured = member;
	} else {
		if (member->set != NULL)
			member->set(&reader->writer, member, &value);
		enter(reader, member->inner);
	}
}

static int on_open(struct reader *reader, enum json_kind kind)
{
	if (++reader->depth > PROTOCOL_MAX_DEPTH)
		return refuse(reader, PROTOCOL_INVALID_REQUEST,
			"the line is nested deeper than 512 levels");
	if (reader->skipping > 0)
		reader->skipping++;
	else if (reader->top != NULL)
		open_member(reader, reader->top->member, kind);
	else if (kind == KIND_OBJECT)
		enter(reader, ROOT);
	else
		return refuse(reader, PROTOCOL_INVALID_REQUEST,
			"JSON-RPC batches (arrays) are not used here: send one object per line");
	return 1;
}

static int on_close(struct reader *reader)
{
	const struct value value = { .kind = KIND_OBJECT, .raw = raw_value(reader) };

	reader->depth--;
	if (reader->skipping > 0) {
		reader->skipping--;
		if (reader->skipping == 0 && reader->captured != NULL)
			reader->captured->set(&reader->writer, reader->captured, &value);
		return 1;
	}
	member_leave(&reader->writer, reader->top->context);
	reader->top = reader->top == reader->frames ? NULL : reader->top - 1;
	return 1;
}

static int on_start_map(void *context)
{
	return on_open(context, KIND_OBJECT);
}

static int on_start_array(void *context)
{
	return on_open(context, KIND_ARRAY);
}

static int on_end(void *context)
{
	return on_close(context);
}

static int on_key(void *context, const unsigned char *key, size_t length)
{
	struct reader *reader = context;

	if (reader->skipping > 0)
		return 1;
	reader->key_end = yajl_get_bytes_consumed(reader->json);
	reader->top->member = member_find(reader->top->context, (struct bytes){ key, length });
	if (reader->top->context == SUB && reader->top->member == NULL)
		reader->top->unknown =
			line_copy(reader->writer.memory, (struct bytes){ key, length });
	return 1;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_start_map,
	.yajl_map_key = on_key,
	.yajl_end_map = on_end,
	.yajl_start_array = on_start_array,
	.yajl_end_array = on_end,
};

static void *json_malloc(void *context, size_t size)
{
	return line_alloc(context, size);
}

static void *json_realloc(void *context, void *old, size_t size)
{
	return line_realloc(context, old, size);
}

static void json_free(void *context, void *piece)
{
	(void)context;
	(void)piece; /* line_memory_reset() frees everything at once */
}

/* The text of yajl ends with a line feed. It contains nothing of the client's input. */
static int refuse_syntax(struct reader *reader, const char *words, size_t at)
{
	reader->why->code = PROTOCOL_PARSE;
	protocol_words(reader->why->text, "not a JSON object: %.*s, near byte %zu",
		(int)strcspn(words, "\n"), words, at);
	return READ_REFUSED;
}

static bool is_blank(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\0' || strchr(" \t\r\n", text[i]) == NULL)
			return false;
	}
	return true;
}

static int parse(struct reader *reader, struct bytes text)
{
	yajl_status status = yajl_parse(reader->json, text.data, text.length);
	size_t at = yajl_get_bytes_consumed(reader->json);

	if (status == yajl_status_ok)
		status = yajl_complete_parse(reader->json);
	if (status == yajl_status_client_canceled)
		return READ_REFUSED;
	if (status != yajl_status_ok)
		return refuse_syntax(reader,
			(const char *)yajl_get_error(reader->json, 0, text.data, text.length), at);
	/* yajl accepts the beginning of a token at the end, such as a string without its closing quote. */
	if (!is_blank(reader->text + at, text.length - at))
		return refuse_syntax(reader, "trailing garbage", at);
	return 0;
}

int protocol_read(
	struct line_memory *memory, struct bytes text, struct draft *out, struct refusal *why)
{
	yajl_alloc_funcs memory_functions = { json_malloc, json_realloc, json_free, memory };
	struct reader reader = {
		.writer = { .memory = memory, .draft = out, .verdict = &out->whole },
		.why = why,
		.text = text.data,
	};

	*out = (struct draft){ .timeout_ms = -1, .max_in_flight = -1 };
	out->whole.delay_ms = -1;
	out->hello.batch_max = 1;
	/* yajl accepts both as white space. JSON does not, and does not allow them in a string either. */
	if (memchr(text.data, '\v', text.length) != NULL ||
		memchr(text.data, '\f', text.length) != NULL) {
		(void)refuse(&reader, PROTOCOL_PARSE,
			"not JSON: a vertical tab or form feed stands in the line");
		return READ_REFUSED;
	}
	reader.json = yajl_alloc(&callbacks, &memory_functions, &reader);
	(void)yajl_config(reader.json, yajl_dont_validate_strings, 1);
	(void)yajl_config(reader.json, yajl_allow_trailing_garbage, 1);
	return parse(&reader, text);
}
