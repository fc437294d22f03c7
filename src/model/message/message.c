/*
 * See message.h. The struct and all its texts are one block of memory, so a message costs one malloc and one free, and
 * its size in the budget is exact. Behind the texts is the digest of a record, which ingest stores with a watermark.
 */
#include "model/message/message.h"

#include <stdlib.h>
#include <string.h>

int message_new(struct message **out, const struct message *from, struct err *err)
{
	size_t size = sizeof(*from) + text_size(from->event_id) + text_size(from->source) +
		      text_size(from->type) + text_size(from->topic) + from->key.length +
		      from->payload.length + from->headers.length + 3;
	struct message *message = malloc(size);
	char *at;

	if (message == NULL)
		return err_memory(err);
	at = (char *)(message + 1);
	*message = *from;
	message->consumer = from->consumer == NULL ? "" : from->consumer;
	message->event_id = place_text(&at, from->event_id);
	message->source = place_text(&at, from->source);
	message->type = place_text(&at, from->type);
	message->topic = place_text(&at, from->topic);
	message->key = place_bytes(&at, from->key);
	message->payload = place_bytes(&at, from->payload);
	message->headers = place_bytes(&at, from->headers);
	message->bytes = size;
	*out = message;
	return 0;
}

void message_free(struct message *message)
{
	free(message);
}

bool message_is_keyed(const struct message *message)
{
	return message->key.data != NULL;
}

/* --- The digest of a record ------------------------------------------------------------------------- */

/* Adds a value with its length and whether it is absent. So absent and empty differ, and so do ("ab", "c") and ("a",
 * "bc"). */
static void add_to_digest(struct buf *out, struct bytes bytes)
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
	add_to_digest(scratch, message->key);
	add_to_digest(scratch, payload);
	add_to_digest(scratch, message->headers);
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
