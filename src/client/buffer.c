/* See buffer.h. */
#include "client/buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

void ih_buffer_fini(struct ih_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct ih_buffer){ .data = NULL };
}

void ih_buffer_cut(struct ih_buffer *buffer, size_t length)
{
	buffer->length = length;
	buffer->broken = false;
}

void ih_buffer_trim(struct ih_buffer *buffer, size_t keep)
{
	if (buffer->capacity > keep)
		ih_buffer_fini(buffer);
}

bool ih_buffer_reserve(struct ih_buffer *buffer, size_t extra)
{
	const size_t needed = buffer->length + extra;
	size_t capacity = buffer->capacity;
	char *data;

	if (buffer->broken)
		return false;
	if (needed <= capacity)
		return true;
	if (capacity < FIRST_CAPACITY)
		capacity = FIRST_CAPACITY;
	while (capacity < needed)
		capacity *= 2;
	data = realloc(buffer->data, capacity);
	if (data == NULL) {
		buffer->broken = true;
		return false;
	}
	buffer->data = data;
	buffer->capacity = capacity;
	return true;
}

void ih_buffer_add(struct ih_buffer *buffer, const void *bytes, size_t length)
{
	if (!ih_buffer_reserve(buffer, length) || length == 0)
		return;
	memcpy(buffer->data + buffer->length, bytes, length);
	buffer->length += length;
}

void ih_buffer_add_text(struct ih_buffer *buffer, const char *text)
{
	ih_buffer_add(buffer, text, strlen(text));
}

void ih_buffer_add_number(struct ih_buffer *buffer, int64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, number);
	ih_buffer_add_text(buffer, text);
}

/* The range of the second byte for each range of first bytes. Everything that RFC 3629 forbids (overlong forms,
 * surrogates, code points above U+10FFFF) can be recognised by the second byte. */
static const struct {
	unsigned char first, last, length, second_min, second_max;
} sequences[] = {
	{ 0x00, 0x7F, 1, 0x00, 0x00 },
	{ 0xC2, 0xDF, 2, 0x80, 0xBF },
	{ 0xE0, 0xE0, 3, 0xA0, 0xBF },
	{ 0xE1, 0xEC, 3, 0x80, 0xBF },
	{ 0xED, 0xED, 3, 0x80, 0x9F },
	{ 0xEE, 0xEF, 3, 0x80, 0xBF },
	{ 0xF0, 0xF0, 4, 0x90, 0xBF },
	{ 0xF1, 0xF3, 4, 0x80, 0xBF },
	{ 0xF4, 0xF4, 4, 0x80, 0x8F },
};

static bool continues(const unsigned char *text, size_t from, size_t length)
{
	for (size_t i = from; i < length; i++) {
		if (text[i] < 0x80 || text[i] > 0xBF)
			return false;
	}
	return true;
}

/* The length of the UTF-8 character at `text`, or 0 if it is not one. Reads at most `left` bytes, and stops at a NUL.
 */
static size_t character_length(const unsigned char *text, size_t left)
{
	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
		if (text[0] < sequences[i].first || text[0] > sequences[i].last)
			continue;
		if (sequences[i].length > left)
			return 0;
		if (sequences[i].length == 1)
			return 1;
		if (text[1] < sequences[i].second_min || text[1] > sequences[i].second_max)
			return 0;
		return continues(text, 2, sequences[i].length) ? sequences[i].length : 0;
	}
	return 0;
}

static void add_ascii(struct ih_buffer *buffer, unsigned char c)
{
	char escape[8];

	if (c == '"' || c == '\\') {
		escape[0] = '\\';
		escape[1] = (char)c;
		ih_buffer_add(buffer, escape, 2);
	} else if (c < 0x20) {
		snprintf(escape, sizeof(escape), "\\u%04x", c);
		ih_buffer_add(buffer, escape, 6);
	} else {
		ih_buffer_add(buffer, &c, 1);
	}
}

void ih_buffer_add_string(struct ih_buffer *buffer, const char *text, size_t max)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char *end = at + strnlen(text, max);

	ih_buffer_add(buffer, "\"", 1);
	while (at < end) {
		const size_t length = character_length(at, SIZE_MAX);

		if (length > (size_t)(end - at))
			break;
		if (length == 0)
			ih_buffer_add(buffer, "\xEF\xBF\xBD", 3);
		else if (length == 1)
			add_ascii(buffer, *at);
		else
			ih_buffer_add(buffer, at, length);
		at += length == 0 ? 1 : length;
	}
	ih_buffer_add(buffer, "\"", 1);
}

bool ih_utf8_is_valid(const char *text, size_t length)
{
	const unsigned char *at = (const unsigned char *)text;
	const unsigned char *end = at + length;

	while (at < end) {
		const size_t character = character_length(at, (size_t)(end - at));

		if (character == 0)
			return false;
		at += character;
	}
	return true;
}
