/*
 * The growable buffer. See buf.h. The capacity doubles, so that a text made of many short pieces is copied only a few
 * times. buf_reset() keeps the memory: a loop that fills the same buffer again allocates nothing.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_fini(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf)BUF_INIT;
}

void buf_reset(struct buf *buf)
{
	buf_cut(buf, 0);
}

void buf_cut(struct buf *buf, size_t length)
{
	buf->length = length;
	buf->broken = false;
}

void buf_trim(struct buf *buf, size_t keep)
{
	size_t limit = buf->limit;

	if (buf->capacity <= keep)
		return;
	buf_fini(buf);
	buf->limit = limit;
}

char *buf_reserve(struct buf *buf, size_t extra)
{
	size_t wanted = buf->length + extra;
	size_t capacity = buf->capacity < 64 ? 64 : buf->capacity;
	char *data;

	if (buf->broken)
		return NULL;
	/* the sum may have overflowed */
	if (wanted < extra || (buf->limit > 0 && wanted > buf->limit)) {
		buf->broken = true;
		return NULL;
	}
	if (wanted <= buf->capacity && buf->data != NULL)
		return buf->data + buf->length;
	while (capacity < wanted)
		capacity = capacity > SIZE_MAX / 2 ? wanted : capacity * 2;
	if (buf->limit > 0 && capacity > buf->limit)
		capacity = buf->limit;
	data = realloc(buf->data, capacity);
	if (data == NULL) {
		buf->broken = true;
		return NULL;
	}
	buf->data = data;
	buf->capacity = capacity;
	return buf->data + buf->length;
}

void buf_add_slowly(struct buf *buf, const void *bytes, size_t length)
{
	char *at;

	if (length == 0)
		return;
	at = buf_reserve(buf, length);
	if (at == NULL)
		return;
	memcpy(at, bytes, length);
	buf->length += length;
}

void buf_addf(struct buf *buf, const char *format, ...)
{
	va_list args;
	va_list again;
	int length;
	char *at;

	va_start(args, format);
	va_copy(again, args);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	at = length < 0 ? NULL : buf_reserve(buf, (size_t)length + 1);
	if (at != NULL) {
		(void)vsnprintf(at, (size_t)length + 1, format, again);
		buf->length += (size_t)length;
	} else {
		buf->broken = true;
	}
	va_end(again);
}

bool buf_ok(const struct buf *buf)
{
	return !buf->broken;
}

const char *buf_str(struct buf *buf)
{
	char *at = buf_reserve(buf, 1);

	if (at == NULL)
		return "";
	*at = '\0';
	return buf->data;
}
