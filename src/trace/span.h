/* A finished span that waits for its export. It has a fixed size and points only to constants, so it can be copied
 * freely. */
#ifndef TRACE_SPAN_H
#define TRACE_SPAN_H

#include "trace/context.h"

#define SPAN_TOPIC_BYTES   250 /* Kafka allows 249 */
#define SPAN_ID_BYTES      200 /* of an event id, cut at a character */
#define SPAN_HANDLER_BYTES 64

struct span {
	uint64_t trace_high;
	uint64_t trace_low;
	uint64_t id;
	uint64_t parent; /* 0 = none */
	enum span_kind kind;
	int64_t start_us; /* since 1970, by this host's clock; the start of a receive span by Kafka's */
	int64_t end_us;
	const char *outcome; /* a constant */
	bool failed;
	int attempt; /* from 1; 0 = does not apply */
	int32_t partition;
	int64_t offset;
	char topic[SPAN_TOPIC_BYTES];
	char event_id[SPAN_ID_BYTES];
	char handler[SPAN_HANDLER_BYTES]; /* "" = none */
};

#endif
