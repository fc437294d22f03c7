/*
 * A message in memory: its row of inbox_messages, as far as dispatch needs it for a delivery. One block of memory;
 * only the counters change. It has one owner at a time. Another thread gets it only together with its ownership.
 */
#ifndef MODEL_MESSAGE_MESSAGE_H
#define MODEL_MESSAGE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/text/digest.h"

struct message {
	int64_t seq; /* 0 until stored */
	const char *event_id;
	const char *source;
	const char *type;     /* NULL = none */
	const char *consumer; /* "" = the one without a name; not in this block, outlives it */
	const char *topic;
	int32_t partition;
	int64_t offset;
	int64_t timestamp_ms; /* -1 = none */
	int32_t generation;   /* of its record; set by ingest only */
	struct bytes key;     /* absent and empty are different */
	struct bytes payload; /* absent = tombstone */
	struct bytes
		headers;   /* JSON text: [["name","value"],["bin",{"base64":"…"}],["nul",null]] */
	uint64_t key_hash; /* first 8 bytes of SHA-256(key), 0 when there is no key */
	unsigned char digest[16]; /* first 16 bytes of SHA-256(payload) */
	int delivery_count; /* rises with each claim; the instance id and this identify a claim */
	int retry_count;
	int crash_count;
	bool suspect; /* it was open when its connection or sidecar ended: deliver it alone */
	bool replay;  /* an operator replays it */
	size_t bytes; /* the size of this block, which counts for budgets */
};

/* Copies `from` and everything it points to into one block. FAULT_MEMORY. */
int message_new(struct message **out, const struct message *from, struct err *err);
void message_free(struct message *message);
/* True if the record has a key. A message without a key has no order with `ordering: key`. */
bool message_is_keyed(const struct message *message);

/*
 * A digest of a record: 16 bytes of a SHA-256 over key, value and headers. It shows whether the record at an offset
 * is still the same, or whether the topic was deleted and created again (rule R17).
 *
 * Its input must not change between versions. The table stores the digest of the last record of each partition, and a
 * digest that does not match looks like a topic recreation.
 */
struct log_digest {
	bool known;
	unsigned char bytes[16];
};

/* Resets `scratch` first. Without memory the result is not `known`. */
struct log_digest log_digest_of(
	struct digester *digester, struct buf *scratch, const struct message *message);
/* True if both are known and not equal. */
bool log_digest_differs(const struct log_digest *a, const struct log_digest *b);

#endif
