/*
 * Reads one line of the sidecar in one pass, by a table that says which members are kept. Unknown members are skipped,
 * and the order of members does not matter. No I/O. One thread.
 */
#ifndef CLIENT_READER_H
#define CLIENT_READER_H

#include "client/delivery.h"

struct ih_line {
	struct ih_record record;         /* IH_LINE_ID … IH_LAST_LINE_FIELD */
	struct ih_deliveries deliveries; /* the caller moves them to another list, or leaves them */
	bool entries;                    /* they are the entries of a batch */
};

struct ih_reader;

enum { IH_READER_BROKEN = 1 };

/* NULL when out of memory. Borrows the pool for as long as it lives. */
struct ih_reader *ih_reader_new(struct ih_pool *pool);
void ih_reader_free(struct ih_reader *reader);
/* Reads a line without its LF. 0: `*out` is borrowed until the next call. IH_READER_BROKEN: not one
 * JSON object. INBOX_ERROR_MEMORY: the same line can be tried again. */
int ih_reader_read(struct ih_reader *reader, const char *text, size_t length, struct ih_line **out);

#endif
