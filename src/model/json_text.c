/*
 * The functions of json_stream.h that build on tokens: the members of an object, and the text of a string. The
 * decoding of yajl is not used: it replaces half a surrogate pair with "?" and drops the character behind it, so
 * different ids would become equal.
 */
#include <string.h>

#include "model/json_stream.h"

struct members {
	json_visit_member *visit;
	void *arg;
	struct json_member member;
	bool no_object;
};

static bool visit_in_object(void *arg, const struct json_token *token)
{
	struct members *members = arg;
	struct json_member *member = &members->member;
	const char *start = token->raw.data;

	if (token->depth == 0) {
		members->no_object = token->kind != JSON_OBJECT && token->kind != JSON_OBJECT_END;
		return !members->no_object;
	}
	if (token->depth > 1)
		return true;
	if (token->kind == JSON_KEY) {
		member->name = (struct bytes){ start + 1, token->raw.length - 2 };
		return true;
	}
	if (token->kind == JSON_OBJECT || token->kind == JSON_ARRAY) {
		member->kind = token->kind;
		member->raw.data = start;
		return true;
	}
	if (token->kind == JSON_OBJECT_END || token->kind == JSON_ARRAY_END) {
		member->raw.length = (size_t)(start + 1 - (const char *)member->raw.data);
	} else {
		member->kind = token->kind;
		member->raw = token->raw;
	}
	return members->visit(members->arg, member);
}

int json_read_members(struct json_stream *stream, struct bytes text, json_visit_member *visit,
	void *arg, struct err *err)
{
	struct members members = { .visit = visit, .arg = arg };
	int r = json_stream_read(stream, text, visit_in_object, &members, err);

	return r == JSON_STOPPED && members.no_object ? JSON_BROKEN : r;
}

static unsigned hex_value(char c)
{
	if (c <= '9')
		return (unsigned)(c - '0');
	return (unsigned)((c | 0x20) - 'a') + 10;
}

static unsigned four_digits(const char *at)
{
	return hex_value(at[0]) << 12 | hex_value(at[1]) << 8 | hex_value(at[2]) << 4 |
	       hex_value(at[3]);
}

static void add_code_point(struct buf *out, unsigned code)
{
	static const unsigned char marks[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	unsigned char bytes[4];

	for (size_t i = length - 1; i > 0; i--) {
		bytes[i] = (unsigned char)(0x80 | (code & 0x3f));
		code >>= 6;
	}
	bytes[0] = (unsigned char)(marks[length] | code);
	buf_add(out, bytes, length);
}

/* Decodes the digits behind "\u", and those of the second half of a surrogate pair. Returns the end; NULL if a half
 * is missing. */
static const char *add_long_escape(struct buf *out, const char *at, const char *end)
{
	unsigned code = four_digits(at);
	unsigned low = 0;

	at += 4;
	if (code < 0xd800 || code > 0xdfff) {
		add_code_point(out, code);
		return at;
	}
	if (code > 0xdbff || end - at < 6 || at[0] != '\\' || at[1] != 'u')
		return NULL;
	low = four_digits(at + 2);
	if (low < 0xdc00 || low > 0xdfff)
		return NULL;
	add_code_point(out, 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00)));
	return at + 6;
}

/* Decodes the escape whose backslash is in front of `at`. yajl has checked that every escape is well-formed. */
static const char *add_unescaped(struct buf *out, const char *at, const char *end)
{
	static const char letters[] = "bfnrt";
	static const char meanings[] = "\b\f\n\r\t";
	const char *letter;

	if (*at == 'u')
		return add_long_escape(out, at + 1, end);
	letter = strchr(letters, *at);
	buf_add_char(out, letter == NULL ? *at : meanings[letter - letters]);
	return at + 1;
}

int json_text_of(struct bytes raw, struct buf *scratch, struct bytes *out, struct err *err)
{
	const char *at = (const char *)raw.data + 1;
	const char *end = at + raw.length - 2;
	size_t start = scratch->length;

	*out = (struct bytes){ at, (size_t)(end - at) };
	if (memchr(at, '\\', out->length) == NULL)
		return 0;
	while (at != NULL && at < end) {
		const char *escape = memchr(at, '\\', (size_t)(end - at));
		const char *stop = escape == NULL ? end : escape;

		buf_add(scratch, at, (size_t)(stop - at));
		at = escape == NULL ? end : add_unescaped(scratch, escape + 1, end);
	}
	if (at == NULL)
		return JSON_BROKEN;
	if (!buf_ok(scratch))
		return err_memory(err);
	*out = (struct bytes){ scratch->data + start, scratch->length - start };
	return 0;
}
