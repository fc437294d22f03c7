/*
 * Text as the table and the handlers keep it: JSON strings, base64 and the header array. Promises
 * that jsonb accepts whatever comes out, in time linear in what goes in.
 */
#include "model/headers.h"

#include <stdint.h>
#include <string.h>

/* RFC 3629 section 4, a row an alternative: the lead byte decides the length and what the second
 * byte may be; that is what shuts out overlong forms, surrogates and all above U+10FFFF. */
struct utf8_form {
	unsigned char lead_low, lead_high;
	unsigned char second_low, second_high;
	size_t length;
};

static const struct utf8_form utf8_forms[] = {
	{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
	{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
	{ 0xe1, 0xec, 0x80, 0xbf, 3 },
	{ 0xed, 0xed, 0x80, 0x9f, 3 },
	{ 0xee, 0xef, 0x80, 0xbf, 3 },
	{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
	{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
	{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
};

/* How many of the next bytes are ASCII for certain: whole words only, most payloads are nothing
 * else. */
static size_t ascii_words(const unsigned char *at, size_t left)
{
	size_t length = 0;
	uint64_t word;

	while (left - length >= sizeof(word)) {
		memcpy(&word, at + length, sizeof(word));
		if ((word & 0x8080808080808080ULL) != 0)
			break;
		length += sizeof(word);
	}
	return length;
}

/* Length of the character beyond ASCII at `at`, 0 when it is none. */
static size_t utf8_character(const unsigned char *at, size_t left)
{
	const struct utf8_form *form = utf8_forms;
	const struct utf8_form *end = form + sizeof(utf8_forms) / sizeof(utf8_forms[0]);

	while (form < end && (at[0] < form->lead_low || at[0] > form->lead_high))
		form++;
	if (form == end || left < form->length || at[1] < form->second_low ||
		at[1] > form->second_high)
		return 0;
	for (size_t i = 2; i < form->length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	return form->length;
}

bool utf8_is_valid(struct bytes bytes)
{
	const unsigned char *at = bytes.data;
	size_t left = bytes.data == NULL ? 0 : bytes.length;

	while (left > 0) {
		size_t step = ascii_words(at, left);

		if (step == 0)
			step = at[0] < 0x80 ? 1 : utf8_character(at, left);
		if (step == 0)
			return false;
		at += step;
		left -= step;
	}
	return true;
}

/* What stands behind the backslash: a letter, or 'u' for the long form; 0 = no escape. */
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
