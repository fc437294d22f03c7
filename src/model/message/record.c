/*
 * Encodes the headers of a record. Every byte sequence has a form that jsonb accepts, so a record is never rejected
 * for its headers. event.c reads this form again.
 */
#include "model/message/record.h"

#include <string.h>

#include "base/text/utf8.h"
#include "json/text.h"

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
