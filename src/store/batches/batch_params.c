/*
 * Turns the rows of a batch into statement parameters: one array per column, in the order of the
 * statement's parameters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/batches/writer_state.h"

/* The columns that every kind of record has. */
struct record_arrays {
	int topic;
	int partition;
	int offset;
	int timestamp;
	int key;
	int headers;
	int payload;
	bool of_generation;
};

/* `of_generation`: see array_coordinate_time(). */
static struct record_arrays open_record(struct params *params, bool of_generation)
{
	struct record_arrays arrays = { .of_generation = of_generation };

	arrays.topic = params_array(params, ARRAY_TEXT);
	arrays.partition = params_array(params, ARRAY_INT);
	arrays.offset = params_array(params, ARRAY_BIGINT);
	arrays.timestamp = params_array(params, ARRAY_TIMESTAMP);
	arrays.key = params_array(params, ARRAY_BYTEA);
	arrays.headers = params_array(params, ARRAY_JSONB);
	arrays.payload = params_array(params, ARRAY_BYTEA);
	return arrays;
}

static void add_record(
	struct params *params, const struct record_arrays *arrays, const struct message *message)
{
	bool no_headers = message->headers.data == NULL || message->headers.length == 0;

	array_text(params, arrays->topic, message->topic);
	array_int(params, arrays->partition, message->partition);
	array_bigint(params, arrays->offset, message->offset);
	array_coordinate_time(params, arrays->timestamp, message->timestamp_ms,
		arrays->of_generation ? message->generation : 1);
	array_bytes(params, arrays->key, message->key);
	array_bytes(params, arrays->headers, no_headers ? bytes_of("[]") : message->headers);
	array_bytes(params, arrays->payload, message->payload);
}

/* A tombstone has no payload and therefore no digest. */
static void add_digest(struct params *params, int array, const struct message *message)
{
	struct bytes digest = { message->digest, sizeof(message->digest) };

	if (message->payload.data == NULL)
		digest = (struct bytes){ NULL, 0 };
	array_bytes(params, array, digest);
}

/* The message with the simplest values. A NULL stays NULL, because a trigger or a constraint of the user may make a
 * difference there. */
static const struct message *without_values(struct message *room, const struct message *from)
{
	*room = *from;
	room->headers = (struct bytes){ NULL, 0 };
	if (room->key.data != NULL)
		room->key = bytes_of("key");
	if (room->payload.data != NULL)
		room->payload = bytes_of("{}");
	return room;
}

/* The columns of a message, without its consumer. */
struct message_arrays {
	int source;
	int event_id;
	int event_type;
	struct record_arrays record;
	int digest;
};

static struct message_arrays open_messages(struct params *params)
{
	struct message_arrays arrays;

	arrays.source = params_array(params, ARRAY_TEXT);
	arrays.event_id = params_array(params, ARRAY_TEXT);
	arrays.event_type = params_array(params, ARRAY_TEXT);
	arrays.record = open_record(params, false);
	arrays.digest = params_array(params, ARRAY_BYTEA);
	return arrays;
}

/* `bare_id`: NULL, or the id of a row that has the simplest values in place of its own. */
static void add_message(struct params *params, const struct message_arrays *arrays,
	const struct message *message, const char *bare_id)
{
	struct message simple;

	array_text(params, arrays->source, message->source);
	array_text(params, arrays->event_id, bare_id != NULL ? bare_id : message->event_id);
	array_text(params, arrays->event_type, message->type);
	add_record(params, &arrays->record,
		bare_id != NULL ? without_values(&simple, message) : message);
	add_digest(params, arrays->digest, message);
}

void fill_messages(struct batch_writer *writer, const struct batch *batch, const size_t *items,
	size_t count, bool bare)
{
	struct params *params = &writer->params;
	struct message_arrays arrays;
	int placement, asks, consumer;
	bool any_asks = false;
	char id[40]; /* looks like any UUID; no other instance inserts it */

	(void)snprintf(id, sizeof(id), "00000000-0000-4000-8000-0000%08" PRIx32,
		(uint32_t)writer->instance);
	params_reset(params);
	params_int(params, writer->instance);
	arrays = open_messages(params);
	placement = params_array(params, ARRAY_SMALLINT);
	asks = params_array(params, ARRAY_SMALLINT);
	consumer = params_array(params, ARRAY_TEXT);
	for (size_t i = 0; i < count; i++) {
		const struct batch_row *row = &batch->rows[items[i]];

		add_message(params, &arrays, row->message, bare ? id : NULL);
		array_smallint(params, placement, (int16_t)row->placement.kind);
		array_smallint(params, asks, (int16_t)row->placement.asks);
		array_text(params, consumer, row->message->consumer);
		any_asks |= row->placement.asks != ASKS_NOTHING;
	}
	params_bool(params, any_asks);
	params_bool(params, writer->moving);
}

void fill_duplicates(
	struct batch_writer *writer, const struct batch *batch, const size_t *items, size_t count)
{
	struct params *params = &writer->params;
	int event_id, source, consumer, digest, number;

	params_reset(params);
	event_id = params_array(params, ARRAY_TEXT);
	source = params_array(params, ARRAY_TEXT);
	consumer = params_array(params, ARRAY_TEXT);
	digest = params_array(params, ARRAY_BYTEA);
	number = params_array(params, ARRAY_INT);
	for (size_t i = 0; i < count; i++) {
		const struct message *message = batch->rows[items[i]].message;

		array_text(params, event_id, message->event_id);
		array_text(params, source, message->source);
		array_text(params, consumer, message->consumer);
		add_digest(params, digest, message);
		array_int(params, number, (int32_t)i);
	}
}

void fill_held(struct batch_writer *writer, const struct batch *batch)
{
	struct params *params = &writer->params;
	int topic, partition, offset, key, event_id, source, consumer;

	params_reset(params);
	topic = params_array(params, ARRAY_TEXT);
	partition = params_array(params, ARRAY_INT);
	for (size_t i = 0; i < batch->update_count; i++) {
		array_text(params, topic, batch->updates[i].topic);
		array_int(params, partition, batch->updates[i].partition);
	}
	topic = params_array(params, ARRAY_TEXT);
	partition = params_array(params, ARRAY_INT);
	offset = params_array(params, ARRAY_BIGINT);
	key = params_array(params, ARRAY_BYTEA);
	event_id = params_array(params, ARRAY_TEXT);
	source = params_array(params, ARRAY_TEXT);
	consumer = params_array(params, ARRAY_TEXT);
	for (size_t i = 0; i < batch->row_count; i++) {
		const struct message *message = batch->rows[i].message;

		array_text(params, topic, message->topic);
		array_int(params, partition, message->partition);
		array_bigint(params, offset, message->offset);
		array_bytes(params, key, message->key);
		array_text(params, event_id, message->event_id);
		array_text(params, source, message->source);
		array_text(params, consumer, message->consumer);
	}
	params_bool(params, writer->ordering == ORDERING_PARTITION);
}

void fill_conflicts(struct batch_writer *writer, const struct batch *batch, const size_t *items,
	size_t count, bool bare)
{
	struct params *params = &writer->params;
	struct record_arrays record;
	int source, event_id, digest, consumer;

	params_reset(params);
	source = params_array(params, ARRAY_TEXT);
	event_id = params_array(params, ARRAY_TEXT);
	record = open_record(params, true);
	digest = params_array(params, ARRAY_BYTEA);
	consumer = params_array(params, ARRAY_TEXT);
	for (size_t i = 0; i < count; i++) {
		const struct message *message = batch->rows[items[i]].message;
		struct message simple;

		array_text(params, source, message->source);
		array_text(params, event_id, message->event_id);
		add_record(params, &record, bare ? without_values(&simple, message) : message);
		add_digest(params, digest, message);
		array_text(params, consumer, message->consumer);
	}
}

void fill_rejects(struct batch_writer *writer, const struct batch *batch, const size_t *items,
	size_t count, bool bare)
{
	struct params *params = &writer->params;
	struct record_arrays record;
	int reason, holds;

	params_reset(params);
	record = open_record(params, true);
	reason = params_array(params, ARRAY_TEXT);
	holds = params_array(params, ARRAY_SMALLINT);
	for (size_t i = 0; i < count; i++) {
		const struct batch_reject *reject = &batch->rejects[items[i]];
		struct message stripped = *reject->message;

		if (bare) {
			stripped.key = stripped.payload = (struct bytes){ NULL, 0 };
			stripped.headers = (struct bytes){ NULL, 0 };
		}
		add_record(params, &record, &stripped);
		array_text(params, reason, reject->reason);
		array_smallint(params, holds, reject->holds);
	}
}

static int by_partition(const void *a, const void *b)
{
	const struct watermark_update *first = *(const struct watermark_update *const *)a;
	const struct watermark_update *second = *(const struct watermark_update *const *)b;
	int order = strcmp(first->topic, second->topic);

	return order != 0 ? order
			  : (first->partition > second->partition) -
				    (first->partition < second->partition);
}

static void array_bigint_or_null(struct params *params, int array, int64_t value)
{
	if (value == -1)
		array_null(params, array);
	else
		array_bigint(params, array, value);
}

void stored_digest(unsigned char out[STORED_DIGEST_BYTES], int64_t last_offset,
	const struct log_digest *digest)
{
	for (int i = 0; i < 8; i++)
		out[i] = (unsigned char)((uint64_t)last_offset >> (56 - 8 * i));
	memcpy(out + 8, digest->bytes, sizeof(digest->bytes));
}

static void add_log_digest(struct params *params, int array, const struct watermark_update *move)
{
	unsigned char bytes[STORED_DIGEST_BYTES];

	if (!move->last_digest.known) {
		array_null(params, array);
		return;
	}
	stored_digest(bytes, move->last_offset, &move->last_digest);
	array_bytes(params, array, (struct bytes){ bytes, sizeof(bytes) });
}

static void add_updates(
	struct params *params, const struct watermark_update *const *updates, size_t count)
{
	int topic = params_array(params, ARRAY_TEXT);
	int partition = params_array(params, ARRAY_INT);
	int epoch = params_array(params, ARRAY_BIGINT);
	int expected = params_array(params, ARRAY_BIGINT);
	int next = params_array(params, ARRAY_BIGINT);
	int last_offset = params_array(params, ARRAY_BIGINT);
	int last_timestamp = params_array(params, ARRAY_TIMESTAMP);
	int last_digest = params_array(params, ARRAY_BYTEA);
	int generation = params_array(params, ARRAY_INT);
	int from = params_array(params, ARRAY_BIGINT);
	int topic_ids = params_array(params, ARRAY_TEXT);

	for (size_t i = 0; i < count; i++) {
		array_text(params, topic, updates[i]->topic);
		array_int(params, partition, updates[i]->partition);
		array_bigint(params, epoch, updates[i]->epoch);
		array_bigint_or_null(params, expected, updates[i]->expected);
		array_bigint(params, next, updates[i]->next);
		array_bigint_or_null(params, last_offset, updates[i]->last_offset);
		array_timestamp(params, last_timestamp, updates[i]->last_timestamp);
		add_log_digest(params, last_digest, updates[i]);
		array_int(params, generation, updates[i]->log.generation);
		array_bigint(params, from, updates[i]->log.from);
		array_text(params, topic_ids,
			updates[i]->log.ids[0] == '\0' ? NULL : updates[i]->log.ids);
	}
}

/* Sorted in the order in which lock_partitions locks rows, so that two instances cannot deadlock. */
int fill_updates(struct batch_writer *writer, const struct batch *batch, struct err *err)
{
	CLEANUP(freep)
	const struct watermark_update **updates =
		calloc(batch->update_count + 1, sizeof(struct watermark_update *));

	if (updates == NULL)
		return err_memory(err);
	for (size_t i = 0; i < batch->update_count; i++)
		updates[i] = &batch->updates[i];
	qsort(updates, batch->update_count, sizeof(struct watermark_update *), by_partition);
	params_reset(&writer->params);
	params_int(&writer->params, writer->instance);
	add_updates(&writer->params, updates, batch->update_count);
	return 0;
}

int fill_single(
	struct batch_writer *writer, const struct batch *batch, size_t item, struct err *err)
{
	const struct message *message = batch->rows[item].message;
	int r = fill_updates(writer, batch, err);
	struct message_arrays arrays;

	if (r != 0)
		return r;
	arrays = open_messages(&writer->params);
	add_message(&writer->params, &arrays, message, NULL);
	array_text(&writer->params, params_array(&writer->params, ARRAY_TEXT), message->consumer);
	params_bigint(&writer->params, writer->floor);
	return 0;
}
