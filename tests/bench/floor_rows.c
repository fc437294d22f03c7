#include "floor_rows.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/text/digest.h"

enum {
	PAYLOAD_BYTES = 400,
	KEYS = 10000,
	PARTITIONS = 4,
	DIGEST_BYTES = 16,
	REPEATS_WITHIN = 5000, /* a repetition is one of the last so many distinct records */
};

/* Columns of COPY behind those of a row: claimed_by and delivery_count. */
enum { COPIED = COLUMNS + 2 };

#define UNIX_EPOCH_IN_POSTGRES_US (-946684800000000)

static const enum array_type columns[] = {
	ARRAY_TEXT,
	ARRAY_TEXT,
	ARRAY_TEXT,
	ARRAY_TEXT,
	ARRAY_INT,
	ARRAY_BIGINT,
	ARRAY_TIMESTAMP,
	ARRAY_BYTEA,
	ARRAY_JSONB,
	ARRAY_BYTEA,
	ARRAY_BYTEA,
};

DEFINE_CLEANUP(struct digester *, digester_free);

struct row {
	char id[40];
	char key[16];
	char headers[128];
	char payload[PAYLOAD_BYTES + 1];
	unsigned char digest[32];
	int32_t partition;
	int64_t offset;
	int64_t timestamp_ms;
};

/* --- One row -------------------------------------------------------------------------------------- */

static uint64_t scatter(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Spread over the whole index, as the random UUIDs of real producers are. */
static void make_id(char *out, size_t size, uint64_t number)
{
	const uint64_t high = scatter(2 * number);
	const uint64_t low = scatter(2 * number + 1);

	snprintf(out, size, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
		high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffffffffffff);
}

static void make_payload(char *out, size_t size, uint64_t number, unsigned key)
{
	const int used = snprintf(
		out, size, "{\"order\":%" PRIu64 ",\"customer\":\"c-%u\",\"note\":\"", number, key);

	memset(out + used, 'n', size - (size_t)used);
	memcpy(out + PAYLOAD_BYTES - 2, "\"}", 3);
}

static void make_row(struct row *row, struct digester *digester, uint64_t number)
{
	const unsigned chosen = (unsigned)(scatter(~number) % KEYS);

	make_id(row->id, sizeof(row->id), number);
	make_payload(row->payload, sizeof(row->payload), number, chosen);
	snprintf(row->key, sizeof(row->key), "c-%u", chosen);
	snprintf(row->headers, sizeof(row->headers),
		"[[\"id\",\"%s\"],[\"eventType\",\"order.created\"]]", row->id);
	(void)digester_sha256(digester, (struct bytes){ row->payload, PAYLOAD_BYTES }, row->digest);
	row->partition = (int32_t)(chosen % PARTITIONS);
	row->offset = (int64_t)(number / PARTITIONS);
	row->timestamp_ms = 1700000000000 + (int64_t)number;
}

/* --- As elements of arrays -------------------------------------------------------------------------- */

static void add_to_arrays(struct params *batch, const struct row *row)
{
	array_text(batch, SOURCE, "bench");
	array_text(batch, EVENT_ID, row->id);
	array_text(batch, EVENT_TYPE, "order.created");
	array_text(batch, TOPIC, "bench");
	array_int(batch, PARTITION, row->partition);
	array_bigint(batch, OFFSET, row->offset);
	array_timestamp(batch, TIMESTAMP, row->timestamp_ms);
	array_bytes(batch, KEY, bytes_of(row->key));
	array_bytes(batch, HEADERS, bytes_of(row->headers));
	array_bytes(batch, PAYLOAD, (struct bytes){ row->payload, PAYLOAD_BYTES });
	array_bytes(batch, DIGEST, (struct bytes){ row->digest, DIGEST_BYTES });
}

/* --- As data of COPY … (FORMAT binary) -------------------------------------------------------------- */

static void copy_short(struct buf *out, uint16_t value)
{
	const uint16_t wire = htons(value);

	buf_add(out, &wire, sizeof(wire));
}

static void copy_word(struct buf *out, uint32_t value)
{
	const uint32_t wire = htonl(value);

	buf_add(out, &wire, sizeof(wire));
}

static void copy_bytes(struct buf *out, const void *data, size_t length)
{
	copy_word(out, (uint32_t)length);
	buf_add(out, data, length);
}

static void copy_text(struct buf *out, const char *text)
{
	copy_bytes(out, text, strlen(text));
}

static void copy_int(struct buf *out, int32_t value)
{
	copy_word(out, sizeof(value));
	copy_word(out, (uint32_t)value);
}

static void copy_bigint(struct buf *out, int64_t value)
{
	copy_word(out, sizeof(value));
	copy_word(out, (uint32_t)((uint64_t)value >> 32));
	copy_word(out, (uint32_t)value);
}

static void copy_jsonb(struct buf *out, const char *json)
{
	copy_word(out, (uint32_t)strlen(json) + 1);
	buf_add_char(out, 1); /* the version of the format */
	buf_add_str(out, json);
}

static void open_copy(struct buf *out)
{
	buf_add(out, "PGCOPY\n\377\r\n\0", 11);
	copy_word(out, 0);
	copy_word(out, 0);
}

static void add_to_copy(struct buf *out, const struct row *row)
{
	copy_short(out, COPIED);
	copy_text(out, "bench");
	copy_text(out, row->id);
	copy_text(out, "order.created");
	copy_text(out, "bench");
	copy_int(out, row->partition);
	copy_bigint(out, row->offset);
	copy_bigint(out, row->timestamp_ms * 1000 + UNIX_EPOCH_IN_POSTGRES_US);
	copy_text(out, row->key);
	copy_jsonb(out, row->headers);
	copy_bytes(out, row->payload, PAYLOAD_BYTES);
	copy_bytes(out, row->digest, DIGEST_BYTES);
	copy_int(out, 1);
	copy_int(out, 1);
}

/* --- Batches ------------------------------------------------------------------------------------ */

static void open_batch(struct batches *batches)
{
	struct batch *batch = &batches->items[batches->count++];

	if (batches->copy)
		open_copy(&batch->copy);
	else
		for (int column = 0; column < COLUMNS; column++)
			(void)params_array(&batch->arrays, columns[column]);
}

static void close_copies(struct batches *batches)
{
	for (size_t i = 0; batches->copy && i < batches->count; i++)
		copy_short(&batches->items[i].copy, UINT16_MAX);
}

static bool all_ok(const struct batches *batches)
{
	for (size_t i = 0; i < batches->count; i++)
		if (!params_ok(&batches->items[i].arrays) || !buf_ok(&batches->items[i].copy))
			return false;
	return true;
}

uint64_t stream_distinct(const struct stream *stream)
{
	return stream->repeats_of == 0 ? stream->records
				       : stream->records - stream->records / stream->repeats_of;
}

/* Which of the distinct records is the one at `position`, counted from 1. */
static uint64_t number_at(const struct stream *stream, uint64_t position)
{
	const struct stream so_far = { position - 1, stream->repeats_of };
	const uint64_t fresh = stream_distinct(&so_far);
	const uint64_t within = fresh < REPEATS_WITHIN ? fresh : REPEATS_WITHIN;

	if (within == 0 || stream->repeats_of == 0 || position % stream->repeats_of != 0)
		return fresh;
	return fresh - 1 - scatter(~position) % within;
}

int batches_make(struct batches *batches, const struct stream *stream, uint64_t size)
{
	CLEANUP(digester_freep) struct digester *digester = NULL;
	struct err err = ERR_INIT;
	struct row row;

	batches->items = calloc(stream->records / size + 1, sizeof(*batches->items));
	if (batches->items == NULL || digester_new(&digester, &err) < 0)
		return -1;
	for (uint64_t i = 0; i < stream->records; i++) {
		if (i % size == 0)
			open_batch(batches);
		make_row(&row, digester, number_at(stream, i + 1));
		if (batches->copy)
			add_to_copy(&batches->items[batches->count - 1].copy, &row);
		else
			add_to_arrays(&batches->items[batches->count - 1].arrays, &row);
	}
	close_copies(batches);
	return all_ok(batches) ? 0 : -1;
}

void batches_fini(struct batches *batches)
{
	for (size_t i = 0; i < batches->count; i++) {
		params_fini(&batches->items[i].arrays);
		buf_fini(&batches->items[i].copy);
	}
	free(batches->items);
}
