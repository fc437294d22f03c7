/*
 * Implements dead_record.h.
 */
#include "ingest/dead_topic/dead_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time/clock.h"
#include "store/periodic/dead_messages.h"

#define LONGEST_KEY 4096

static void add(struct rd_kafka_headers_s *headers, const char *name, struct bytes value)
{
	producer_headers_add(headers, bytes_of(name), value);
}

/* Header names and their columns. A NULL column gets no header. */
static const struct {
	const char *name;
	enum dead_column column;
} texts[] = {
	{ "inboxd-error-code", DEAD_CODE },
	{ "inboxd-error", DEAD_ERROR },
	{ "inboxd-source", DEAD_SOURCE },
	{ "inboxd-event-id", DEAD_EVENT_ID },
	{ "inboxd-event-type", DEAD_EVENT_TYPE },
	{ "inboxd-topic", DEAD_TOPIC },
	{ "inboxd-consumer", DEAD_CONSUMER },
}, numbers[] = {
	{ "inboxd-partition", DEAD_PARTITION },
	{ "inboxd-offset", DEAD_OFFSET },
	{ "inboxd-attempts", DEAD_RETRIES },
	{ "inboxd-crashes", DEAD_CRASHES },
	{ "inboxd-seq", DEAD_SEQ },
}, times[] = {
	{ "inboxd-timestamp", DEAD_TIMESTAMP },
	{ "inboxd-dead-at", DEAD_AT },
};

static void add_ours(const struct dead_record_source *source, struct rd_kafka_headers_s *headers)
{
	const struct rows *rows = source->rows;
	int row = source->row;
	char text[32];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!rows_is_null(rows, row, (int)texts[i].column))
			add(headers, texts[i].name, rows_bytes(rows, row, (int)texts[i].column));
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		(void)snprintf(text, sizeof(text), "%" PRId64,
			rows_int(rows, row, (int)numbers[i].column));
		add(headers, numbers[i].name, bytes_of(text));
	}
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		if (rows_is_null(rows, row, (int)times[i].column))
			continue;
		clock_format_ms(rows_timestamp_ms(rows, row, (int)times[i].column), text);
		add(headers, times[i].name, bytes_of(text));
	}
	add(headers, "inboxd-group", bytes_of(source->group));
}

static void add_theirs(const struct dead_record_source *source, struct rd_kafka_headers_s *headers)
{
	struct bytes runs = rows_bytes(source->rows, source->row, DEAD_HEADERS);
	struct bytes name;
	struct bytes value;

	while (rows_take_run(&runs, &name) && rows_take_run(&runs, &value)) {
		if (name.data != NULL)
			producer_headers_add(headers, name, value);
	}
}

void dead_record_write(
	const struct dead_record_source *source, enum dead_record_form form, struct outgoing *out)
{
	static const char nothing[] = "";
	const struct rows *rows = source->rows;
	bool dropped = rows_bool(rows, source->row, DEAD_DROPPED);
	struct rd_kafka_headers_s *headers = producer_headers_new();

	*out = (struct outgoing){
		.topic = source->topic,
		.key = rows_bytes(rows, source->row, DEAD_KEY),
		.value = rows_bytes(rows, source->row, DEAD_PAYLOAD),
		.headers = headers,
	};
	if (form == DEAD_RECORD_WHOLE)
		add_theirs(source, headers);
	add_ours(source, headers);
	if (form == DEAD_RECORD_WHOLE && !dropped)
		return;
	add(headers, "inboxd-value-omitted", bytes_of(dropped ? "retention" : "refused"));
	/* An empty value, because a null value would be a tombstone. */
	out->value = (struct bytes){ nothing, 0 };
	if (form == DEAD_RECORD_BARE && out->key.length > LONGEST_KEY)
		out->key = (struct bytes){ NULL, 0 };
}
