/*
 * See otlp.h. The names of attributes, the kinds and the numbers of enumerations are those of OpenTelemetry; a
 * collector ignores a name that it does not know, so a mistake here shows only in the unit test and in
 * test_tracing.py.
 *
 * Payloads, headers and keys are never written: a collector is not a place for the data of a service.
 */
#include "trace/otlp.h"

#include <inttypes.h>

#include "json/text.h"

enum { KIND_CLIENT = 3, KIND_CONSUMER = 5 };
enum { STATUS_ERROR = 2 };

/* In the order of enum span_kind. The operations are those of the semantic conventions, if they have one. */
static const struct {
	const char *name;
	int kind;
	const char *operation; /* messaging.operation.type; NULL = none */
	const char *database;  /* db.system.name; NULL = not a span of the database */
} kinds[] = {
	[SPAN_RECEIVE] = { "receive", KIND_CONSUMER, "receive", NULL },
	[SPAN_STORE] = { "store", KIND_CLIENT, NULL, "postgresql" },
	[SPAN_DELIVER] = { "deliver", KIND_CLIENT, "process", NULL },
	[SPAN_SETTLE] = { "settle", KIND_CLIENT, "settle", "postgresql" },
};

static void add_text(struct buf *out, bool first, const char *key, const char *value)
{
	buf_addf(out, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":", first ? "" : ",", key);
	json_add_string(out, bytes_of(value));
	buf_add_str(out, "}}");
}

/* The JSON form of protobuf writes 64-bit numbers as strings. */
static void add_number(struct buf *out, const char *key, int64_t value)
{
	buf_addf(out, ",{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}", key, value);
}

void otlp_begin(struct buf *out, const struct otlp_resource *resource)
{
	buf_add_str(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
	add_text(out, true, "service.name", resource->service);
	add_text(out, false, "service.instance.id", resource->instance);
	buf_add_str(out,
		"]},\"scopeSpans\":[{\"scope\":{\"name\":\"inboxd\",\"version\":\"" INBOXD_VERSION
		"\"},\"spans\":[");
}

/* The partition is a string in the conventions. Partitions are never negative here. */
static void add_attributes(struct buf *out, const struct span *span)
{
	char partition[16];
	char *at = partition + sizeof(partition);
	uint32_t rest = (uint32_t)span->partition;

	*--at = '\0';
	do
		*--at = (char)('0' + rest % 10);
	while ((rest /= 10) != 0);
	add_text(out, true, "messaging.system", "kafka");
	add_text(out, false, "messaging.destination.name", span->topic);
	add_text(out, false, "messaging.destination.partition.id", at);
	add_number(out, "messaging.kafka.offset", span->offset);
	add_text(out, false, "messaging.message.id", span->event_id);
	add_text(out, false, "messaging.operation.name", kinds[span->kind].name);
	if (kinds[span->kind].operation != NULL)
		add_text(out, false, "messaging.operation.type", kinds[span->kind].operation);
	if (kinds[span->kind].database != NULL)
		add_text(out, false, "db.system.name", kinds[span->kind].database);
	add_text(out, false, "inboxd.outcome", span->outcome);
	if (span->attempt > 0)
		add_number(out, "inboxd.attempt", span->attempt);
	if (span->handler[0] != '\0')
		add_text(out, false, "inboxd.handler", span->handler);
}

void otlp_add_span(struct buf *out, bool first, const struct span *span)
{
	buf_addf(out,
		"%s{\"traceId\":\"%016" PRIx64 "%016" PRIx64 "\",\"spanId\":\"%016" PRIx64 "\"",
		first ? "" : ",", span->trace_high, span->trace_low, span->id);
	if (span->parent != 0)
		buf_addf(out, ",\"parentSpanId\":\"%016" PRIx64 "\"", span->parent);
	buf_addf(out, ",\"name\":\"%s\",\"kind\":%d", kinds[span->kind].name,
		kinds[span->kind].kind);
	buf_addf(out,
		",\"startTimeUnixNano\":\"%" PRId64 "000\",\"endTimeUnixNano\":\"%" PRId64 "000\"",
		span->start_us, span->end_us);
	buf_add_str(out, ",\"attributes\":[");
	add_attributes(out, span);
	buf_add_str(out, "],\"status\":{");
	if (span->failed) {
		buf_addf(out, "\"code\":%d,\"message\":", STATUS_ERROR);
		json_add_string(out, bytes_of(span->outcome));
	}
	buf_add_str(out, "}}");
}

void otlp_end(struct buf *out)
{
	buf_add_str(out, "]}]}]}");
}
