/*
 * See context.h. First the traceparent is found and read, then the ids are computed.
 *
 * The ids must be the same in every sidecar and every version: a message is stored by one instance and can be delivered
 * by another one, and their spans must meet in one trace. So nothing random and nothing local may go into them.
 *
 * Headers come from strangers. A traceparent that is not valid counts as none, as W3C asks.
 */
#include "trace/context.h"

#include <openssl/sha.h>
#include <string.h>

#define PARENT_LENGTH 55 /* 00-32 digits-16 digits-2 digits */
#define SAMPLED       1u

/* Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* --- traceparent ------------------------------------------------------------------------------ */

/* W3C Trace Context allows only lower case. */
static bool read_hex(const char *text, size_t digits, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < digits; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			*out = *out << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*out = *out << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	return true;
}

/* A later version may add fields behind another dash. The version ff is not valid. */
static bool has_shape(const char *text, size_t length, uint64_t version)
{
	if (version == 0xff || (version == 0 && length != PARENT_LENGTH))
		return false;
	return text[2] == '-' && text[35] == '-' && text[52] == '-' &&
	       (length == PARENT_LENGTH || text[PARENT_LENGTH] == '-');
}

/* version-trace-span-flags, each in hexadecimal. Zero is no id of a trace or a span. */
static bool parse(struct trace_context *out, const char *text, size_t length, bool *sampled)
{
	struct trace_context found = *out;
	uint64_t version;
	uint64_t flags;

	if (length < PARENT_LENGTH || !read_hex(text, 2, &version) ||
		!has_shape(text, length, version) || !read_hex(text + 3, 16, &found.trace_high) ||
		!read_hex(text + 19, 16, &found.trace_low) ||
		!read_hex(text + 36, 16, &found.parent) || !read_hex(text + 53, 2, &flags))
		return false;
	if ((found.trace_high == 0 && found.trace_low == 0) || found.parent == 0)
		return false;
	*out = found;
	*sampled = (flags & SAMPLED) != 0;
	return true;
}

/* The value behind a name in the array of headers: after a comma and spaces (jsonb writes one), a string. */
static struct bytes value_behind(const char *at, const char *end)
{
	const char *start;

	while (at < end && (*at == ',' || *at == ' '))
		at++;
	if (at == end || *at != '"')
		return (struct bytes){ NULL, 0 };
	start = ++at;
	while (at < end && *at != '"')
		at++;
	return (struct bytes){ start, (size_t)(at - start) };
}

/* `quoted` has a bracket and quotes, so it cannot be inside a JSON string, and the text need not be parsed. */
static struct bytes last_value(struct bytes headers, const char *quoted)
{
	struct bytes value = { NULL, 0 };
	const char *at = headers.data;
	const char *end = at + headers.length;
	size_t length = strlen(quoted);

	while (at != NULL && (at = memmem(at, (size_t)(end - at), quoted, length)) != NULL) {
		at += length;
		value = value_behind(at, end);
	}
	return value;
}

bool trace_parent_of(struct trace_context *out, struct bytes headers, bool *sampled)
{
	struct bytes value;

	if (headers.data == NULL)
		return false;
	value = last_value(headers, "[\"ce_traceparent\"");
	if (value.length == 0)
		value = last_value(headers, "[\"traceparent\"");
	return value.length > 0 && parse(out, value.data, value.length, sampled);
}

/* --- Ids -------------------------------------------------------------------------------------- */

static uint64_t read_big_endian(const unsigned char *bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < 8; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* Makes a trace id of source and event id. Of a very long id only a part is used; two of them can share a trace then.
 */
static void make_own(struct trace_context *out, const struct message *message)
{
	unsigned char text[1024];
	unsigned char digest[SHA256_DIGEST_LENGTH];
	size_t source = strnlen(message->source, sizeof(text) / 2 - 1);
	size_t id = strnlen(message->event_id, sizeof(text) / 2);

	memcpy(text, message->source, source);
	text[source] = '\0';
	memcpy(text + source + 1, message->event_id, id);
	(void)SHA256(text, source + 1 + id, digest);
	out->trace_high = read_big_endian(digest);
	out->trace_low = read_big_endian(digest + 8);
	out->seed = read_big_endian(digest + 16);
	if (out->trace_high == 0 && out->trace_low == 0)
		out->trace_low = 1;
}

bool trace_context_of(struct trace_context *out, const struct message *message, int64_t one_in)
{
	uint64_t place = (uint64_t)(uint32_t)message->partition << 40 ^ (uint64_t)message->offset;
	bool sampled = true;

	out->parent = 0;
	make_own(out, message);
	(void)trace_parent_of(out, message->headers, &sampled);
	out->seed ^= mix(place);
	/* According to W3C the low half is random. It is mixed, because some producers do not comply. */
	return sampled && (one_in <= 1 || mix(out->trace_low) % (uint64_t)one_in == 0);
}

uint64_t trace_span_id(const struct trace_context *context, enum span_kind kind, int64_t number)
{
	uint64_t id = mix(context->seed ^ mix((uint64_t)number << 2 | (uint64_t)kind));

	return id == 0 ? 1 : id;
}
