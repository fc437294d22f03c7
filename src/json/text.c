/*
 * See text.h. The decoding of yajl is not used for ids: it replaces half a surrogate pair with "?" and drops the
 * character behind it, so different ids would become equal.
 */
#include "json/text.h"

#include <string.h>

#include "base/text/utf8.h"
#include "json/stream.h"

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

void json_add_any_string(struct buf *out, const char *text, size_t max)
{
	const char *end = text + strnlen(text, max);

	buf_add_char(out, '"');
	while (text < end) {
		/* Looks behind `end`: a character that was cut there is dropped, not replaced. */
		const size_t length = utf8_character(text, strnlen(text, 4));
		const unsigned char c = (unsigned char)*text;

		if (length > (size_t)(end - text))
			break;
		if (length == 0)
			buf_add_str(out, "\xef\xbf\xbd");
		else if (escapes[c] == 0)
			buf_add(out, text, length);
		else if (c >= ' ')
			add_escape(out, c);
		else
			buf_addf(out, "\\u%04x", c);
		text += length == 0 ? 1 : length;
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

char *base64url_put(char *out, struct bytes bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const unsigned char *in = bytes.data;
	unsigned held = 0; /* the bits that are not written yet are its lowest ones */
	int bits = 0;

	for (size_t i = 0; i < bytes.length; i++) {
		held = held << 8 | in[i];
		for (bits += 8; bits >= 6; bits -= 6)
			*out++ = digits[held >> (bits - 6) & 63];
	}
	if (bits > 0)
		*out++ = digits[held << (6 - bits) & 63];
	return out;
}

static int digit_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

bool base64_decode(struct buf *out, struct bytes text)
{
	const char *digits = text.data;
	const size_t start = out->length;
	size_t padding = 0;

	if (text.length % 4 != 0)
		return false;
	while (padding < 2 && padding < text.length && digits[text.length - 1 - padding] == '=')
		padding++;
	/* Four digits are three bytes. The padding of the last four counts as digits of value 0. */
	for (size_t i = 0; i < text.length; i += 4) {
		const size_t missing = i + 4 == text.length ? padding : 0;
		unsigned char bytes[3];
		unsigned bits = 0;

		for (size_t k = 0; k < 4; k++) {
			const int digit = k < 4 - missing ? digit_of(digits[i + k]) : 0;

			if (digit < 0) {
				out->length = start;
				return false;
			}
			bits = bits << 6 | (unsigned)digit;
		}
		bytes[0] = (unsigned char)(bits >> 16);
		bytes[1] = (unsigned char)(bits >> 8);
		bytes[2] = (unsigned char)bits;
		buf_add(out, bytes, 3 - missing);
	}
	return true;
}

bool base64_is_valid(struct bytes text)
{
	const char *digits = text.data;
	size_t length = text.length;

	if (length % 4 != 0)
		return false;
	for (int padding = 0; padding < 2 && length > 0 && digits[length - 1] == '='; padding++)
		length--;
	for (size_t i = 0; i < length; i++) {
		if (digit_of(digits[i]) < 0)
			return false;
	}
	return true;
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
