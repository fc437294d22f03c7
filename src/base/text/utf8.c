/*
 * UTF-8. See utf8.h. Every payload and every text from outside passes here before it reaches PostgreSQL, JSON or the
 * log, so the common case, ASCII, is checked in words of eight bytes.
 */
#include "base/text/utf8.h"

#include <stdint.h>
#include <string.h>

/* RFC 3629, section 4, one row for each alternative. The first byte determines the length and the range of the second
 * byte. This range excludes overlong forms, surrogates and everything above U+10FFFF. */
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

/* The number of ASCII bytes at the start, counted in words of eight bytes. Most payloads contain nothing else. */
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

static size_t beyond_ascii(const unsigned char *at, size_t left)
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

size_t utf8_character(const void *text, size_t left)
{
	const unsigned char *at = text;

	if (left == 0)
		return 0;
	return at[0] < 0x80 ? 1 : beyond_ascii(at, left);
}

/* Eight bytes at a time. The highest bit of a byte is set by adding 1 if it is 0x7f, and by subtracting 0x20 if it is
 * below. A carry or borrow changes other bytes only where one byte is refused anyway. */
bool ascii_is_printable(struct bytes bytes)
{
	const unsigned char *at = bytes.data;
	size_t left = bytes.length;
	uint64_t word;

	if (at == NULL)
		return false;
	for (; left >= sizeof(word); at += sizeof(word), left -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		if (((word | (word + 0x0101010101010101ULL) | (word - 0x2020202020202020ULL)) &
			    0x8080808080808080ULL) != 0)
			return false;
	}
	for (; left > 0; at++, left--) {
		if (*at < 0x20 || *at > 0x7e)
			return false;
	}
	return true;
}

bool utf8_is_valid(struct bytes bytes)
{
	const unsigned char *at = bytes.data;
	size_t left = bytes.data == NULL ? 0 : bytes.length;

	while (left > 0) {
		size_t step = ascii_words(at, left);

		if (step == 0)
			step = utf8_character(at, left);
		if (step == 0)
			return false;
		at += step;
		left -= step;
	}
	return true;
}

/* True if the rest of the text is the beginning of a character that is not complete. */
static bool is_cut_off(const char *at, size_t left)
{
	unsigned char lead = (unsigned char)at[0];
	size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

	if (lead < 0xc2 || lead > 0xf4 || left >= length)
		return false;
	for (size_t i = 1; i < left; i++) {
		if (((unsigned char)at[i] & 0xc0) != 0x80)
			return false;
	}
	return true;
}

void utf8_repair(char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		size_t step = utf8_character(text, left);

		if (step == 0 && is_cut_off(text, left)) {
			*text = '\0';
			return;
		}
		if (step == 0) {
			*text = '?';
			step = 1;
		}
		text += step;
		left -= step;
	}
}

size_t utf8_fit(const char *text, size_t length, size_t max)
{
	if (length <= max)
		return length;
	while (max > 0 && ((unsigned char)text[max] & 0xc0) == 0x80)
		max--;
	return max;
}
