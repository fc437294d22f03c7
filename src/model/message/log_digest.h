/*
 * A digest of a record: 16 bytes of a SHA-256 over key, value and headers. It shows whether the record at an offset
 * is still the same, or whether the topic was deleted and created again (rule R17).
 *
 * Its input must not change between versions. The table stores the digest of the last record of each partition, and a
 * digest that does not match looks like a topic recreation. One thread.
 */
#ifndef MODEL_MESSAGE_LOG_DIGEST_H
#define MODEL_MESSAGE_LOG_DIGEST_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/digest.h"

struct message;

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
