/*
 * A stored message in the sidecar's memory: what inbox_messages holds of it and what dispatch needs
 * to hand it over. One block of memory, immutable but for the counters; one owner at a time; passed
 * between threads only by giving it away.
 */
#ifndef MODEL_MESSAGE_H
#define MODEL_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct message {
	int64_t seq; /* 0 until stored */
	const char *event_id;
	const char *source;
	const char *type; /* NULL = none */
	const char *topic;
	int32_t partition;
	int64_t offset;
	int64_t timestamp_ms; /* -1 = none */
	struct bytes key;     /* absent != empty */
	struct bytes payload; /* absent = tombstone */
	struct bytes
		headers;   /* JSON text: [["name","value"],["bin",{"base64":"…"}],["nul",null]] */
	uint64_t key_hash; /* first 8 bytes of SHA-256(key), 0 when there is no key */
	unsigned char digest[16]; /* first 16 bytes of SHA-256(payload) */
	int delivery_count;       /* the claim's number: part of the fencing token */
	int retry_count;
	int crash_count;
	bool suspect; /* was open when a connection or a sidecar was lost: deliver it alone */
	bool replay;  /* an operator asked for another run */
	size_t bytes; /* memory this block takes: what budgets count */
};

/* Copies `from` with everything it points to into one block. FAULT_MEMORY when there is none. */
int message_new(struct message **out, const struct message *from, struct err *err);
void message_free(struct message *message);
/* True when order can be asked of it: a NULL key is ordered with nothing. */
bool message_is_keyed(const struct message *message);

#endif
