/*
 * See stream.h; implemented with yajl. yajl passes only the decoded value to a callback. The position of the
 * token comes from yajl_get_bytes_consumed(), which is the end of the token inside a callback; the unit tests check
 * this behaviour of yajl. The token starts at the end of the one before, after white space, a comma or a colon.
 */
#include "json/stream.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/text/utf8.h"

/*
 * yajl 2.1 keeps two buffers that start at 2 KiB and double (the decoded string and a token cut off
 * by the end of the text; both together hold no more than the text), a stack that grows by 128
 * bytes to one byte a level (up to JSON_DEEPEST), a handle, and the words of an error. Moved at each doubling and never given back, that stays
 * below four times the text plus this.
 */
#define ARENA_FIXED ((size_t)16384)
#define ARENA_TIMES ((size_t)4)
/* A larger arena is freed after each text. */
#define ARENA_KEEP  ((size_t)1048576)

#define ALIGNMENT   ((size_t)16)

#define NO_TEXT     ((struct bytes){ NULL, 0 })

struct json_stream {
	char *arena;
	size_t capacity;
	size_t used;
	yajl_handle yajl;
	struct bytes text;
	const char *at; /* end of the last token */
	bool at_end;    /* yajl has the whole text: only a number at its end can follow */
	bool too_deep;
	int depth;
	struct json_limits limits;
	struct json_mistake mistake;
	json_visit *visit;
	void *arg;
};

int json_stream_new(struct json_stream **out, struct err *err)
{
	return json_stream_new_with(out, &(struct json_limits){ .max_depth = JSON_MAX_DEPTH }, err);
}

int json_stream_new_with(
	struct json_stream **out, const struct json_limits *limits, struct err *err)
{
	struct json_stream *stream = calloc(1, sizeof(*stream));

	if (stream == NULL)
		return err_memory(err);
	stream->limits = *limits;
	*out = stream;
	return 0;
}

void json_stream_free(struct json_stream *stream)
{
	if (stream == NULL)
		return;
	free(stream->arena);
	free(stream);
}

/* The size of each block is stored in front of it. The arena is large enough for yajl 2.1. If it is not, this is
 * another yajl, and the process must end before yajl writes through NULL: it does not check the result of its
 * allocator. */
static void *arena_malloc(void *arg, size_t size)
{
	struct json_stream *stream = arg;
	size_t room = (size + 2 * ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	char *block = stream->arena + stream->used;

	if (room < size || room > stream->capacity - stream->used)
		abort();
	memcpy(block, &size, sizeof(size));
	stream->used += room;
	return block + ALIGNMENT;
}

static void *arena_realloc(void *arg, void *old, size_t size)
{
	void *block = arena_malloc(arg, size);
	size_t old_size = 0;

	if (old != NULL) {
		memcpy(&old_size, (char *)old - ALIGNMENT, sizeof(old_size));
		memcpy(block, old, old_size < size ? old_size : size);
	}
	return block;
}

static void arena_free(void *arg, void *block)
{
	(void)arg; /* the next text reuses the whole arena */
	(void)block;
}

static int arena_reserve(struct json_stream *stream, size_t length, struct err *err)
{
	size_t wanted = ARENA_FIXED + ARENA_TIMES * length;

	stream->used = 0;
	if (length > (SIZE_MAX - ARENA_FIXED) / ARENA_TIMES)
		return err_memory(err);
	if (wanted <= stream->capacity)
		return 0;
	free(stream->arena);
	stream->capacity = 0;
	stream->arena = malloc(wanted);
	if (stream->arena == NULL)
		return err_memory(err);
	stream->capacity = wanted;
	return 0;
}

static void arena_trim(struct json_stream *stream)
{
	if (stream->capacity <= ARENA_KEEP)
		return;
	free(stream->arena);
	stream->arena = NULL;
	stream->capacity = 0;
}

static bool is_between_tokens(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == ',' || c == ':';
}

static int emit(struct json_stream *stream, enum json_kind kind, struct bytes decoded)
{
	const char *text = stream->text.data;
	const char *start = stream->at;
	const char *end = text + (stream->at_end ? stream->text.length
						 : yajl_get_bytes_consumed(stream->yajl));
	struct json_token token = { .kind = kind, .depth = stream->depth, .text = decoded };

	while (start < end && is_between_tokens(*start))
		start++;
	token.raw = (struct bytes){ start, (size_t)(end - start) };
	stream->at = end;
	return stream->visit(stream->arg, &token);
}

static int enter(struct json_stream *stream, enum json_kind kind)
{
	if (stream->depth == stream->limits.max_depth) {
		stream->too_deep = true;
		return 0;
	}
	if (stream->visit != NULL && !emit(stream, kind, NO_TEXT))
		return 0;
	stream->depth++;
	return 1;
}

static int leave(struct json_stream *stream, enum json_kind kind)
{
	stream->depth--;
	return stream->visit == NULL || emit(stream, kind, NO_TEXT);
}

static int on_null(void *stream)
{
	return emit(stream, JSON_NULL, NO_TEXT);
}

static int on_boolean(void *stream, int value)
{
	(void)value;
	return emit(stream, JSON_BOOLEAN, NO_TEXT);
}

static int on_number(void *stream, const char *digits, size_t length)
{
	(void)digits;
	(void)length;
	return emit(stream, JSON_NUMBER, NO_TEXT);
}

static int on_string(void *stream, const unsigned char *text, size_t length)
{
	return emit(stream, JSON_STRING, (struct bytes){ text, length });
}

static int on_key(void *stream, const unsigned char *text, size_t length)
{
	return emit(stream, JSON_KEY, (struct bytes){ text, length });
}

static int on_object(void *stream)
{
	return enter(stream, JSON_OBJECT);
}

static int on_object_end(void *stream)
{
	return leave(stream, JSON_OBJECT_END);
}

static int on_array(void *stream)
{
	return enter(stream, JSON_ARRAY);
}

static int on_array_end(void *stream)
{
	return leave(stream, JSON_ARRAY_END);
}

static const yajl_callbacks visiting = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_object,
	.yajl_map_key = on_key,
	.yajl_end_map = on_object_end,
	.yajl_start_array = on_array,
	.yajl_end_array = on_array_end,
};

/* Only validates. Without a callback for strings yajl does not decode them, which is faster. */
static const yajl_callbacks validating = {
	.yajl_start_map = on_object,
	.yajl_end_map = on_object_end,
	.yajl_start_array = on_array,
	.yajl_end_array = on_array_end,
};

/* The UTF-8 check of yajl accepts surrogates, and its parser accepts VT and FF as white space. JSON allows neither,
 * also not in strings. */
static bool check_bytes(struct json_stream *stream, struct bytes text)
{
	if (text.data == NULL || ascii_is_printable(text))
		return text.data != NULL;
	stream->mistake.problem = JSON_NOT_UTF8;
	if (!utf8_is_valid(text))
		return false;
	stream->mistake.problem = JSON_BAD_SPACE;
	return stream->limits.any_space || (memchr(text.data, '\v', text.length) == NULL &&
						   memchr(text.data, '\f', text.length) == NULL);
}

static bool is_blank(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\0' || strchr(" \t\r\n", text[i]) == NULL)
			return false;
	}
	return true;
}

static int wrong_syntax(struct json_stream *stream, const char *words, size_t at)
{
	struct json_mistake *mistake = &stream->mistake;
	size_t length = strcspn(words, "\n");

	if (length >= sizeof(mistake->words))
		length = sizeof(mistake->words) - 1;
	mistake->problem = JSON_SYNTAX;
	mistake->at = at;
	memcpy(mistake->words, words, length);
	mistake->words[length] = '\0';
	return JSON_BROKEN;
}

/* Also checks what follows the value: yajl accepts the beginning of a token there, such as an opening quote, and
 * waits for its end. */
static int parse_text(struct json_stream *stream)
{
	yajl_alloc_funcs memory = { arena_malloc, arena_realloc, arena_free, stream };
	struct bytes text = stream->text;
	const char *words;
	yajl_status status;
	size_t end;

	stream->yajl = yajl_alloc(stream->visit == NULL ? &validating : &visiting, &memory, stream);
	(void)yajl_config(stream->yajl, yajl_dont_validate_strings, 1); /* check_bytes() did */
	/* So that yajl ends behind the value, and what follows is checked here. */
	(void)yajl_config(stream->yajl, yajl_allow_trailing_garbage, 1);
	status = yajl_parse(stream->yajl, text.data, text.length);
	end = yajl_get_bytes_consumed(stream->yajl);
	stream->at_end = true;
	if (status == yajl_status_ok)
		status = yajl_complete_parse(stream->yajl);
	if (stream->too_deep) {
		stream->mistake.problem = JSON_TOO_DEEP;
		return JSON_BROKEN;
	}
	if (status == yajl_status_client_canceled)
		return JSON_STOPPED;
	if (status == yajl_status_ok)
		return is_blank((const char *)text.data + end, text.length - end)
			       ? 0
			       : wrong_syntax(stream, "trailing garbage", end);
	/* Most payloads that are not JSON are only validated. Nobody reads the words about them. */
	if (stream->visit == NULL)
		return JSON_BROKEN;
	words = (const char *)yajl_get_error(stream->yajl, 0, text.data, text.length);
	return wrong_syntax(stream, words, end);
}

int json_stream_read(struct json_stream *stream, struct bytes text, json_visit *visit, void *arg,
	struct err *err)
{
	int r;

	if (!check_bytes(stream, text))
		return JSON_BROKEN;
	r = arena_reserve(stream, text.length, err);
	if (r < 0)
		return r;
	stream->text = text;
	stream->at = text.data;
	stream->at_end = false;
	stream->too_deep = false;
	stream->depth = 0;
	stream->visit = visit;
	stream->arg = arg;
	r = parse_text(stream);
	arena_trim(stream);
	return r;
}

const struct json_mistake *json_stream_mistake(const struct json_stream *stream)
{
	return &stream->mistake;
}
