/* See last_line.h. */
#include "base/text/last_line.h"

#include <string.h>

#include "base/text/utf8.h"

void last_line_reset(struct last_line *line)
{
	line->text[0] = '\0';
	line->length = 0;
	line->blank = true;
}

static void complete(struct last_line *line)
{
	if (!line->blank) {
		memcpy(line->text, line->partial, line->length);
		line->text[line->length] = '\0';
		/* A text that was cut can end inside a character. */
		utf8_repair(line->text);
	}
	line->length = 0;
	line->blank = true;
}

void last_line_add(struct last_line *line, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		const unsigned char c = (unsigned char)bytes[i];

		if (c == '\n') {
			complete(line);
			continue;
		}
		if (line->blank && c <= ' ')
			continue; /* the margin */
		line->blank = false;
		if (line->length < sizeof(line->partial) - 1)
			line->partial[line->length++] = c < ' ' || c == 0x7f ? ' ' : (char)c;
	}
}

const char *last_line_end(struct last_line *line)
{
	complete(line);
	while (line->text[0] != '\0' && line->text[strlen(line->text) - 1] == ' ')
		line->text[strlen(line->text) - 1] = '\0';
	return line->text;
}
