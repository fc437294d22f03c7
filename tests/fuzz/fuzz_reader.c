/*
 * Lines for the handler library, whoever wrote them: each is broken or ends in deliveries whose every
 * part can be asked for, with a NUL behind it. What was read before makes no difference.
 */
#include <stdlib.h>

#include "client/reader.h"
#include "demand.h"

struct reading {
	struct ih_pool pool;
	struct ih_reader *reader;
};

static void reading_init(struct reading *reading)
{
	ih_pool_init(&reading->pool);
	reading->reader = ih_reader_new(&reading->pool);
	demand(reading->reader != NULL);
}

static void reading_fini(struct reading *reading)
{
	ih_reader_free(reading->reader);
	ih_pool_fini(&reading->pool);
}

static void check_bytes(struct inbox_bytes bytes)
{
	demand(bytes.data == NULL ? bytes.length == 0 : bytes.data[bytes.length] == '\0');
}

static void check_headers(const struct inbox_delivery *delivery)
{
	size_t count = inbox_delivery_header_count(delivery);

	for (size_t i = 0; i < count; i++) {
		const char *name = inbox_delivery_header_name(delivery, i);

		demand(name != NULL);
		check_bytes(inbox_delivery_header_value(delivery, i));
		check_bytes(inbox_delivery_header(delivery, name));
	}
	demand(*inbox_delivery_header_name(delivery, count) == '\0');
	demand(inbox_delivery_header_value(delivery, count).data == NULL);
}

static void check_delivery(const struct inbox_delivery *delivery)
{
	demand(inbox_delivery_claim(delivery) != NULL && inbox_delivery_event_id(delivery) != NULL);
	demand(inbox_delivery_source(delivery) != NULL && inbox_delivery_type(delivery) != NULL);
	demand(inbox_delivery_time(delivery) != NULL && inbox_delivery_topic(delivery) != NULL);
	(void)inbox_delivery_seq(delivery);
	(void)inbox_delivery_attempt(delivery);
	(void)inbox_delivery_max_attempts(delivery);
	(void)inbox_delivery_deadline_ms(delivery);
	(void)inbox_delivery_replay(delivery);
	(void)inbox_delivery_partition(delivery);
	(void)inbox_delivery_offset(delivery);
	demand(inbox_delivery_batch_rest(delivery) == 0);
	check_bytes(inbox_delivery_key(delivery));
	check_bytes(inbox_delivery_data(delivery));
	check_bytes(inbox_delivery_event(delivery));
	(void)inbox_delivery_attribute(delivery, "traceparent");
	check_headers(delivery);
}

static bool same_bytes(struct inbox_bytes a, struct inbox_bytes b)
{
	return bytes_equal((struct bytes){ a.data, a.length }, (struct bytes){ b.data, b.length });
}

static void check_same(const struct inbox_delivery *a, const struct inbox_delivery *b)
{
	demand(same_text(inbox_delivery_event_id(a), inbox_delivery_event_id(b)));
	demand(same_text(inbox_delivery_claim(a), inbox_delivery_claim(b)));
	demand(same_bytes(inbox_delivery_data(a), inbox_delivery_data(b)));
	demand(same_bytes(inbox_delivery_key(a), inbox_delivery_key(b)));
	demand(same_bytes(inbox_delivery_event(a), inbox_delivery_event(b)));
	demand(a->headers.count == b->headers.count && a->attributes.count == b->attributes.count);
	demand(same_text(a->broken, b->broken));
}

static void check_lines(const struct ih_line *line, const struct ih_line *again)
{
	const struct inbox_delivery *delivery;
	const struct inbox_delivery *other = TAILQ_FIRST(&again->deliveries);

	for (int field = IH_LINE_ID; field <= IH_LAST_LINE_FIELD; field++)
		demand(same_text(ih_record_text(&line->record, (enum ih_field)field),
			ih_record_text(&again->record, (enum ih_field)field)));
	demand(line->entries == again->entries);
	TAILQ_FOREACH (delivery, &line->deliveries, list) {
		demand(other != NULL);
		check_delivery(delivery);
		check_same(delivery, other);
		other = TAILQ_NEXT(other, list);
	}
	demand(other == NULL);
}

/* The line has no byte around it, so reading beyond it is detected. */
static void check_line(struct reading *used, const uint8_t *text, size_t length)
{
	struct reading fresh;
	struct ih_line *line = NULL;
	struct ih_line *again = NULL;
	char *copy = malloc(length == 0 ? 1 : length);
	int r;

	demand(copy != NULL);
	memcpy(copy, text, length);
	reading_init(&fresh);
	r = ih_reader_read(used->reader, copy, length, &line);
	demand(r == 0 || r == IH_READER_BROKEN);
	demand(ih_reader_read(fresh.reader, copy, length, &again) == r);
	if (r == 0)
		check_lines(line, again);
	reading_fini(&fresh);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reading used;

	reading_init(&used);
	while (size > 0) {
		const uint8_t *end = memchr(data, '\n', size);
		size_t length = end == NULL ? size : (size_t)(end - data);

		check_line(&used, data, length);
		if (end == NULL)
			break;
		data += length + 1;
		size -= length + 1;
	}
	reading_fini(&used);
	return 0;
}
