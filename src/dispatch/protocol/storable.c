/*
 * See storable.h. The type jsonb refuses three things that JSON allows:
 * - the escape \u0000,
 * - half of a surrogate pair,
 * - numbers out of the range of numeric: 131,072 digits before the point, 16,383 after it, and an exponent of about
 *   10^9. The text is walked through once, and only escapes and numbers are examined.
 */
#include "dispatch/protocol/storable.h"

#include <stdint.h>

#include "base/text/utf8.h"
#include "dispatch/protocol/protocol.h"

#define HOLDS_NUL           "it holds a NUL character (U+0000), which PostgreSQL cannot store"
#define HOLDS_HALF          "it holds half of a surrogate pair, which is not a character"
#define HOLDS_NUMBER        "it holds a number beyond the range of PostgreSQL's numeric"

#define MAX_WHOLE_DIGITS    131072
#define MAX_FRACTION_DIGITS 16383
#define MAX_EXPONENT        1073741822 /* numeric.c refuses an exponent of INT_MAX / 2 or more */

struct walk {
	const char *at;
	const char *end;
};

static unsigned hex4(const char *digits)
{
	unsigned value = 0;

	for (int i = 0; i < 4; i++) {
		char c = digits[i];
		unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);

		value = value << 4 | digit;
	}
	return value;
}

static bool is_unicode_escape(const struct walk *walk)
{
	return walk->end - walk->at >= 6 && walk->at[0] == '\\' && walk->at[1] == 'u';
}

/* From the backslash to the end of the escape, or of both escapes of a surrogate pair. */
static const char *walk_escape(struct walk *walk)
{
	unsigned unit;

	if (!is_unicode_escape(walk)) {
		walk->at += 2;
		return NULL;
	}
	unit = hex4(walk->at + 2);
	walk->at += 6;
	if (unit == 0)
		return HOLDS_NUL;
	if ((unit & 0xf800) != 0xd800)
		return NULL;
	if (unit >= 0xdc00 || !is_unicode_escape(walk) || (hex4(walk->at + 2) & 0xfc00) != 0xdc00)
		return HOLDS_HALF;
	walk->at += 6;
	return NULL;
}

/* From behind the opening quote to behind the closing one. */
static const char *walk_string(struct walk *walk)
{
	const char *why = NULL;

	while (why == NULL && walk->at < walk->end && *walk->at != '"') {
		if (*walk->at == '\\')
			why = walk_escape(walk);
		else
			walk->at++;
	}
	walk->at++;
	return why;
}

static bool is_digit(const struct walk *walk)
{
	return walk->at < walk->end && *walk->at >= '0' && *walk->at <= '9';
}

/* The exponent, or 0 if there is none. Saturates above the range of numeric. */
static int64_t walk_exponent(struct walk *walk)
{
	int64_t value = 0;
	bool negative = false;

	if (walk->at == walk->end || (*walk->at | 0x20) != 'e')
		return 0;
	walk->at++;
	if (walk->at < walk->end && (*walk->at == '+' || *walk->at == '-'))
		negative = *walk->at++ == '-';
	for (; is_digit(walk); walk->at++) {
		if (value <= MAX_EXPONENT)
			value = value * 10 + (*walk->at - '0');
	}
	return negative ? -value : value;
}

/* From the sign or first digit to behind the number. */
static const char *walk_number(struct walk *walk)
{
	int64_t whole = 0;    /* digits before the point */
	int64_t fraction = 0; /* digits behind it */
	int64_t leading = -1; /* index of the first digit that is not 0, from the left */
	int64_t exponent;

	if (*walk->at == '-')
		walk->at++;
	for (; is_digit(walk); walk->at++, whole++) {
		if (leading < 0 && *walk->at != '0')
			leading = whole;
	}
	if (walk->at < walk->end && *walk->at == '.')
		walk->at++;
	for (; is_digit(walk); walk->at++, fraction++) {
		if (leading < 0 && *walk->at != '0')
			leading = whole + fraction;
	}
	exponent = walk_exponent(walk);
	if (exponent > MAX_EXPONENT || exponent < -MAX_EXPONENT ||
		fraction - exponent > MAX_FRACTION_DIGITS)
		return HOLDS_NUMBER;
	return leading >= 0 && whole - leading + exponent > MAX_WHOLE_DIGITS ? HOLDS_NUMBER : NULL;
}

const char *json_refusal(struct bytes json)
{
	return json.length > PROTOCOL_MAX_RESULT ? "it is longer than 1048576 bytes"
						 : json_refusal_of_any_length(json);
}

const char *json_refusal_of_any_length(struct bytes json)
{
	struct walk walk = { .at = json.data, .end = (const char *)json.data + json.length };
	const char *why = NULL;

	while (why == NULL && walk.at < walk.end) {
		if (*walk.at == '"') {
			walk.at++;
			why = walk_string(&walk);
		} else if (is_digit(&walk) || *walk.at == '-') {
			why = walk_number(&walk);
		} else {
			walk.at++;
		}
	}
	return why;
}

const char *text_refusal(struct bytes text)
{
	if (memchr(text.data, '\0', text.length) != NULL)
		return HOLDS_NUL;
	/* The line is valid UTF-8. Only what yajl makes of an escaped half of a surrogate pair is not. */
	return utf8_is_valid(text) ? NULL : HOLDS_HALF;
}
