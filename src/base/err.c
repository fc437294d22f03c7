/*
 * The text of a fault. See err.h. Texts come from libraries and servers too, in any encoding and with line breaks. They
 * are cut and cleaned here, so that every user can print them as one line.
 */
#include "base/err.h"

#include <stdio.h>
#include <string.h>

/* A text that was cut can end inside a UTF-8 character. Returns its length without the incomplete character. */
static size_t without_half_character(const char *text, size_t end)
{
	size_t start = end;

	while (start > 0 && end - start < 3 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (start == 0 || (unsigned char)text[start - 1] < 0xc0)
		return end;
	return (unsigned char)text[start - 1] < 0xe0 && end - start == 1    ? end
	       : (unsigned char)text[start - 1] < 0xf0 && end - start == 2  ? end
	       : (unsigned char)text[start - 1] >= 0xf0 && end - start == 3 ? end
									    : start - 1;
}

static void one_line(char *text)
{
	size_t end = without_half_character(text, strlen(text));

	text[end] = '\0';

	while (end > 0 && (unsigned char)text[end - 1] <= ' ')
		text[--end] = '\0';
	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	}
}

int err_set(struct err *err, int fault, const char *format, ...)
{
	va_list args;

	if (err == NULL)
		return fault;
	err->fault = fault;
	err->state[0] = '\0';
	err->schema[0] = '\0';
	err->table[0] = '\0';
	err->advice = 0;
	va_start(args, format);
	(void)vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	one_line(err->text);
	return fault;
}

int err_prefix(struct err *err, const char *format, ...)
{
	char old[sizeof(err->text)];
	va_list args;
	int used;

	if (err == NULL)
		return FAULT_INTERNAL;
	memcpy(old, err->text, sizeof(old));
	va_start(args, format);
	used = vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	if (used >= 0 && (size_t)used + 2 < sizeof(err->text)) {
		size_t room = sizeof(err->text) - (size_t)used - 2;

		memcpy(err->text + used, ": ", 2);
		memcpy(err->text + used + 2, old, room);
		err->text[sizeof(err->text) - 1] = '\0';
		err->advice += err->advice == 0 ? 0 : (size_t)used + 2;
	} else {
		err->advice = 0;
	}
	one_line(err->text);
	if (err->advice >= strlen(err->text))
		err->advice = 0;
	return err->fault;
}

int err_advise(struct err *err, const char *format, ...)
{
	va_list args;
	size_t used;

	if (err == NULL)
		return FAULT_INTERNAL;
	used = strlen(err->text);
	if (used + 3 > sizeof(err->text))
		return err->fault;
	memcpy(err->text + used, ": ", 2);
	err->advice = used + 2;
	va_start(args, format);
	(void)vsnprintf(err->text + err->advice, sizeof(err->text) - err->advice, format, args);
	va_end(args);
	one_line(err->text);
	return err->fault;
}

const char *err_advice(const struct err *err)
{
	return err->advice == 0 ? "" : err->text + err->advice;
}

size_t err_words(const struct err *err)
{
	return err->advice == 0 ? strlen(err->text) : err->advice - 2;
}

int err_exit_code(int fault)
{
	if (fault == 0)
		return 0;
	if (fault == FAULT_MEMORY || fault > 0 || fault < FAULT_OUTPUT)
		return -FAULT_INTERNAL;
	return -fault;
}
