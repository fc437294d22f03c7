/*
 * What tells a record from another one that has its place in another log of the same name (rule R17): 16 bytes of a
 * SHA-256 over key, value and headers. What it is computed from must stay the same from version to version: a digest
 * in the table that no longer fits its record would make the log look like another one. One thread.
 */
#ifndef MODEL_LOG_DIGEST_H
#define MODEL_LOG_DIGEST_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/digest.h"

struct message;

struct log_digest {
	bool known;
	unsigned char bytes[16];
};

/* `scratch` is reset first. Not known when there is no memory. */
struct log_digest log_digest_of(
	struct digester *digester, struct buf *scratch, const struct message *message);
/* Both are known, and they are not the same. */
bool log_digest_differs(const struct log_digest *a, const struct log_digest *b);

#endif
