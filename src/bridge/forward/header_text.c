/* See header_text.h. */
#include "bridge/forward/header_text.h"

#include <string.h>

enum { TRACE_MAX = 512 };

void header_text_add(struct buf *out, struct bytes value, const char *also)
{
	static const char digits[] = "0123456789ABCDEF";
	const unsigned char *text = value.data;

	for (size_t i = 0; i < value.length; i++) {
		const unsigned char c = text[i];

		if (c > ' ' && c < 0x7f && c != '"' && c != '%' && strchr(also, c) == NULL) {
			buf_add_char(out, (char)c);
			continue;
		}
		buf_add_char(out, '%');
		buf_add_char(out, digits[c >> 4]);
		buf_add_char(out, digits[c & 15]);
	}
}

void header_text_add_idempotency_key(struct buf *out, struct bytes source, struct bytes id)
{
	header_text_add(out, source, ":");
	buf_add_char(out, ':');
	header_text_add(out, id, "");
}

struct bytes header_text_trace(struct bytes value)
{
	const char *text = value.data;
	size_t length = TRACE_MAX;

	if (value.length <= TRACE_MAX)
		return value;
	while (length > 0 && text[length] != ',')
		length--;
	return length == 0 ? (struct bytes){ NULL, 0 } : (struct bytes){ text, length };
}
