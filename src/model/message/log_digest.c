/* See log_digest.h. Do not change what goes into the digest: digests are stored in the table. */
#include "model/message/log_digest.h"

#include <string.h>

#include "model/message/message.h"

/* Adds a value with its length and whether it is absent. So absent and empty differ, and so do ("ab", "c") and ("a",
 * "bc"). */
static void add(struct buf *out, struct bytes bytes)
{
	uint64_t length = bytes.length;
	unsigned char head[9] = { bytes.data != NULL };

	for (int i = 0; i < 8; i++)
		head[1 + i] = (unsigned char)(length >> (56 - 8 * i));
	buf_add(out, head, sizeof(head));
	if (bytes.data != NULL)
		buf_add(out, bytes.data, bytes.length);
}

/* Uses the digest of the payload, which is known already, instead of the payload. */
struct log_digest log_digest_of(
	struct digester *digester, struct buf *scratch, const struct message *message)
{
	struct bytes payload = { message->digest, sizeof(message->digest) };
	struct log_digest out = { .known = false };
	unsigned char digest[32];

	if (message->payload.data == NULL)
		payload.data = NULL;
	buf_reset(scratch);
	add(scratch, message->key);
	add(scratch, payload);
	add(scratch, message->headers);
	if (!buf_ok(scratch) ||
		digester_sha256(
			digester, (struct bytes){ scratch->data, scratch->length }, digest) != 0)
		return out;
	out.known = true;
	memcpy(out.bytes, digest, sizeof(out.bytes));
	return out;
}

bool log_digest_differs(const struct log_digest *a, const struct log_digest *b)
{
	return a->known && b->known && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) != 0;
}
