/* Texts about a line that is being read, as protocol_draft.h describes them. */
#include "dispatch/protocol/protocol_draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "dispatch/protocol/protocol.h"
#include "dispatch/protocol/protocol_memory.h"

void protocol_words(char *text, const char *format, ...)
{
	char whole[2 * PROTOCOL_WORDS];
	va_list args;
	size_t fits;

	va_start(args, format);
	(void)vsnprintf(whole, sizeof(whole), format, args);
	va_end(args);
	fits = utf8_fit(whole, strlen(whole), PROTOCOL_WORDS - 1);
	memcpy(text, whole, fits);
	text[fits] = '\0';
}

const char *protocol_quote(struct line_memory *memory, const char *text)
{
	struct bytes start = { text, utf8_fit(text, strlen(text), 48) };

	return utf8_is_valid(start) ? line_copy(memory, start) : "?";
}
