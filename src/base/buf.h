/*
 * A growable byte buffer with a limit. After an append that failed (no memory, or above the limit) the buffer is
 * "broken": further appends do nothing and buf_ok() is false. So a caller checks once, at the end. One thread.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct buf {
	char *data; /* not NUL-terminated unless buf_str() was called */
	size_t length;
	size_t capacity;
	size_t limit; /* bytes; 0 = no limit */
	bool broken;
};

#define BUF_INIT                                                                                   \
	{                                                                                          \
		.data = NULL                                                                       \
	}

void buf_fini(struct buf *buf);
/* Empties the buffer, which is not broken afterwards. Keeps the memory. */
void buf_reset(struct buf *buf);
/* Removes everything behind `length`. The buffer is not broken afterwards. Keeps the memory. */
void buf_cut(struct buf *buf, size_t length);
/* Frees the memory, with the content, if it is larger than `keep`. */
void buf_trim(struct buf *buf, size_t keep);
/* Room for `extra` more bytes, or NULL if broken. The caller adds the bytes that it wrote to `length`. */
char *buf_reserve(struct buf *buf, size_t extra);
void buf_add_slowly(struct buf *buf, const void *bytes, size_t length);

/* Inline, because a message is assembled from hundreds of short pieces, which nearly always fit. The capacity never
 * exceeds the limit. */
static inline void buf_add(struct buf *buf, const void *bytes, size_t length)
{
	if (buf->broken || length == 0 || length > buf->capacity - buf->length) {
		buf_add_slowly(buf, bytes, length);
		return;
	}
	memcpy(buf->data + buf->length, bytes, length);
	buf->length += length;
}

static inline void buf_add_str(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

static inline void buf_add_char(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool buf_ok(const struct buf *buf);
/* The content with a NUL appended; "" if broken. Borrowed until the next change. */
const char *buf_str(struct buf *buf);

#endif
