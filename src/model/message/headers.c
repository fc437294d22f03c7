/*
 * Encodes JSON strings, base64 and the array of headers. Promises: jsonb accepts every result, and the time is linear
 * in the input.
 */
#include "model/message/headers.h"

#include <string.h>

/* The character behind the backslash: a letter, or 'u' for the long form; 0 = the byte needs no escape. */
static const char escapes[256] = {
	[0x00 ... 0x07] = 'u',
	['\b'] = 'b',
	['\t'] = 't',
	['\n'] = 'n',
	[0x0b] = 'u',
	['\f'] = 'f',
	['\r'] = 'r',
	[0x0e ... 0x1f] = 'u',
	['"'] = '"',
	['\\'] = '\\',
};

static void add_escape(struct buf *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	const char text[] = { '\\', escapes[c], '0', '0', hex[c >> 4], hex[c & 15] };

	buf_add(out, text, escapes[c] == 'u' ? sizeof(text) : 2);
}

void json_add_string(struct buf *out, struct bytes text)
{
	const unsigned char *at = text.data;
	const unsigned char *end = at == NULL ? at : at + text.length;

	buf_add_char(out, '"');
	while (at < end) {
		const unsigned char *run = at;

		while (at < end && escapes[*at] == 0)
			at++;
		buf_add(out, run, (size_t)(at - run));
		if (at < end)
			add_escape(out, *at++);
	}
	buf_add_char(out, '"');
}

void base64_add(struct buf *out, struct bytes bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = bytes.data;
	size_t left = in == NULL ? 0 : bytes.length;
	char *at = buf_reserve(out, (left + 2) / 3 * 4);

	if (at == NULL)
		return;
	out->length += (left + 2) / 3 * 4;
	for (; left >= 3; in += 3, left -= 3) {
		*at++ = digits[in[0] >> 2];
		*at++ = digits[(in[0] & 3) << 4 | in[1] >> 4];
		*at++ = digits[(in[1] & 15) << 2 | in[2] >> 6];
		*at++ = digits[in[2] & 63];
	}
	if (left == 0)
		return;
	*at++ = digits[in[0] >> 2];
	*at++ = digits[(in[0] & 3) << 4 | (left == 2 ? in[1] >> 4 : 0)];
	*at++ = left == 2 ? digits[(in[1] & 15) << 2] : '=';
	*at = '=';
}

/* A string where jsonb can hold one, else {"base64":"…"}. */
static void add_text(struct buf *out, struct bytes text)
{
	if (utf8_is_valid(text) && memchr(text.data, '\0', text.length) == NULL) {
		json_add_string(out, text);
		return;
	}
	buf_add_str(out, "{\"base64\":\"");
	base64_add(out, text);
	buf_add_str(out, "\"}");
}

void headers_encode(struct buf *out, const struct header *headers, size_t count)
{
	buf_add_char(out, '[');
	for (size_t i = 0; i < count; i++) {
		buf_add_str(out, i == 0 ? "[" : ",[");
		add_text(out, bytes_of(headers[i].name));
		buf_add_char(out, ',');
		if (headers[i].value.data == NULL)
			buf_add_str(out, "null");
		else
			add_text(out, headers[i].value);
		buf_add_char(out, ']');
	}
	buf_add_char(out, ']');
}
