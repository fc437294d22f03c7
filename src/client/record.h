/*
 * The texts of one line or one delivery: a buffer, and for each field of the protocol the position of its text in it.
 * Records are reused, so that a message needs no allocation. One thread.
 */
#ifndef CLIENT_RECORD_H
#define CLIENT_RECORD_H

#include "client/buffer.h"
#include "inboxd/handler.h"

enum ih_field {
	IH_NO_FIELD,
	/* of a line */
	IH_LINE_ID, /* raw JSON, as the next */
	IH_CANCELLED_ID,
	IH_CANCEL_REASON,
	IH_METHOD,
	IH_ERROR_CODE,
	IH_ERROR_MESSAGE,
	IH_MAX_LINE_BYTES,
	IH_LAST_LINE_FIELD = IH_MAX_LINE_BYTES,
	/* of a delivery */
	IH_ID, /* raw JSON */
	IH_CLAIM,
	IH_SEQ,
	IH_ATTEMPT,
	IH_MAX_ATTEMPTS,
	IH_DEADLINE,
	IH_REPLAY,
	IH_EVENT, /* raw JSON */
	IH_EVENT_ID,
	IH_SOURCE,
	IH_TYPE,
	IH_TIME,
	IH_KEY,
	IH_TOPIC,
	IH_PARTITION,
	IH_OFFSET,
	IH_DATA,
	IH_DATA_JSON, /* raw JSON */
	IH_FIELDS
};

/* The position of a text. The first byte of the buffer is unused, so that start 0 means absent. */
struct ih_slice {
	uint32_t start;
	uint32_t length;
};

struct ih_record {
	struct ih_buffer bag; /* broken = a text is missing, because there was no memory */
	struct ih_slice fields[IH_FIELDS];
};

void ih_record_fini(struct ih_record *record);
/* Removes all texts. Keeps up to `keep` bytes of memory. */
void ih_record_clear(struct ih_record *record, size_t keep);
/* Adds a text and a NUL behind it. */
struct ih_slice ih_record_add(struct ih_record *record, const char *text, size_t length);
/* Adds the bytes of a base64 text. False: it is not base64. */
bool ih_record_add_base64(
	struct ih_record *record, const char *text, size_t length, struct ih_slice *out);
/* The bytes of a slice; data == NULL when it is absent. Borrowed until the next addition. */
struct inbox_bytes ih_record_bytes(const struct ih_record *record, struct ih_slice slice);
/* The text of a field, "" when absent. Borrowed as above. */
const char *ih_record_text(const struct ih_record *record, enum ih_field field);
int64_t ih_record_number(const struct ih_record *record, enum ih_field field);

#endif
