/*
 * The floor: how fast this PostgreSQL takes the rows of the inbox when nothing else is asked of it.
 *
 *	floor CONNINFO [ROWS [BATCH]]
 *
 * One connection, one prepared INSERT … SELECT unnest … ON CONFLICT DO NOTHING per batch with binary
 * arrays, each its own transaction, synchronous commit; into the table that `inboxd migrate` made,
 * found through the search_path of CONNINFO. The rows are made before the clock starts (0.7 kB of
 * memory each), so that only the statements are measured. Says {"rows":N,"seconds":S,
 * "rows_per_second":R} on stdout, and exits non-zero when a single row was not stored.
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/digest.h"
#include "store/params.h"

enum { ROWS = 300000, BATCH = 2000, PAYLOAD_BYTES = 400, KEYS = 10000, PARTITIONS = 4 };

#define STATEMENT                                                                                  \
	"INSERT INTO inbox_messages (source, event_id, event_type, topic, kafka_partition,"        \
	" kafka_offset, kafka_timestamp, key, headers, payload, payload_digest, claimed_by,"       \
	" delivery_count) SELECT i.*, 1, 1 FROM unnest($1::text[], $2::text[], $3::text[],"        \
	" $4::text[], $5::int[], $6::bigint[], $7::timestamptz[], $8::bytea[], $9::jsonb[],"       \
	" $10::bytea[], $11::bytea[]) AS i ON CONFLICT (event_id, source) DO NOTHING"

/* The columns, as parameters of the statement. */
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

enum column {
	SOURCE,
	EVENT_ID,
	EVENT_TYPE,
	TOPIC,
	PARTITION,
	OFFSET,
	TIMESTAMP,
	KEY,
	HEADERS,
	PAYLOAD,
	DIGEST,
	COLUMNS
};

DEFINE_CLEANUP(PGconn *, PQfinish);
DEFINE_CLEANUP(struct digester *, digester_free);

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "floor: %s: %s\n", what, why);
	return 1;
}

/* --- The rows: what tests/bench/records.py puts into Kafka, as inboxd stores it ----------------- */

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

static void add_row(struct params *batch, struct digester *digester, uint64_t number)
{
	const unsigned chosen = (unsigned)(scatter(~number) % KEYS);
	unsigned char digest[32];
	char payload[PAYLOAD_BYTES + 1];
	char headers[256];
	char key[16];
	char id[40];

	make_id(id, sizeof(id), number);
	make_payload(payload, sizeof(payload), number, chosen);
	snprintf(key, sizeof(key), "c-%u", chosen);
	snprintf(headers, sizeof(headers), "[[\"id\",\"%s\"],[\"eventType\",\"order.created\"]]",
		id);
	(void)digester_sha256(digester, (struct bytes){ payload, PAYLOAD_BYTES }, digest);
	array_text(batch, SOURCE, "bench");
	array_text(batch, EVENT_ID, id);
	array_text(batch, EVENT_TYPE, "order.created");
	array_text(batch, TOPIC, "bench");
	array_int(batch, PARTITION, (int32_t)(chosen % PARTITIONS));
	array_bigint(batch, OFFSET, (int64_t)(number / PARTITIONS));
	array_timestamp(batch, TIMESTAMP, 1700000000000 + (int64_t)number);
	array_bytes(batch, KEY, bytes_of(key));
	array_bytes(batch, HEADERS, bytes_of(headers));
	array_bytes(batch, PAYLOAD, (struct bytes){ payload, PAYLOAD_BYTES });
	array_bytes(batch, DIGEST, (struct bytes){ digest, 16 });
}

/* --- Batches ------------------------------------------------------------------------------------ */

struct batches {
	struct params *items;
	size_t count;
};

static void batches_fini(struct batches *batches)
{
	for (size_t i = 0; i < batches->count; i++)
		params_fini(&batches->items[i]);
	free(batches->items);
}

static int make_batches(struct batches *batches, uint64_t rows, uint64_t size)
{
	CLEANUP(digester_freep) struct digester *digester = NULL;
	struct err err = ERR_INIT;

	batches->items = calloc(rows / size + 1, sizeof(*batches->items));
	if (batches->items == NULL || digester_new(&digester, &err) < 0)
		return fail("cannot make the rows", "out of memory");
	for (uint64_t number = 0; number < rows; number++) {
		if (number % size == 0) {
			for (int column = 0; column < COLUMNS; column++)
				(void)params_array(
					&batches->items[batches->count], columns[column]);
			batches->count++;
		}
		add_row(&batches->items[batches->count - 1], digester, number);
		if (!params_ok(&batches->items[batches->count - 1]))
			return fail("cannot make the rows", "out of memory");
	}
	return 0;
}

/* --- The measurement ------------------------------------------------------------------------------ */

/* Rows stored, or negative. */
static int64_t insert(PGconn *conn, const struct params *batch)
{
	const char *values[COLUMNS];
	int lengths[COLUMNS];
	int formats[COLUMNS];
	PGresult *result;
	int64_t stored = -1;

	for (int i = 0; i < COLUMNS; i++) {
		values[i] = batch->values[i].data;
		lengths[i] = (int)batch->values[i].length;
		formats[i] = 1;
	}
	result = PQexecPrepared(conn, "insert", COLUMNS, values, lengths, formats, 1);
	if (PQresultStatus(result) == PGRES_COMMAND_OK)
		stored = strtoll(PQcmdTuples(result), NULL, 10);
	PQclear(result);
	return stored;
}

static int prepare(PGconn *conn, const struct batches *batches)
{
	PGresult *result;
	ExecStatusType status;

	if (PQstatus(conn) != CONNECTION_OK)
		return fail("cannot connect", PQerrorMessage(conn));
	result = PQprepare(conn, "insert", STATEMENT, COLUMNS, batches->items[0].types);
	status = PQresultStatus(result);
	PQclear(result);
	return status == PGRES_COMMAND_OK ? 0 : fail("cannot prepare", PQerrorMessage(conn));
}

static int measure(PGconn *conn, const struct batches *batches, uint64_t rows)
{
	const int64_t began_us = clock_now_us();
	uint64_t stored = 0;
	double seconds;

	for (size_t i = 0; i < batches->count; i++) {
		const int64_t count = insert(conn, &batches->items[i]);

		if (count < 0)
			return fail("cannot insert", PQerrorMessage(conn));
		stored += (uint64_t)count;
	}
	seconds = (double)(clock_now_us() - began_us) / 1e6;
	if (stored != rows)
		return fail("rows are missing", "the table was not empty before");
	printf("{\"rows\":%" PRIu64 ",\"seconds\":%.3f,\"rows_per_second\":%.0f}\n", rows, seconds,
		(double)rows / seconds);
	return 0;
}

static uint64_t number_or(const char *text, uint64_t otherwise)
{
	return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
	CLEANUP(PQfinishp) PGconn *conn = NULL;
	CLEANUP(batches_fini) struct batches batches = { NULL, 0 };
	const uint64_t rows = number_or(argc > 2 ? argv[2] : NULL, ROWS);
	const uint64_t size = number_or(argc > 3 ? argv[3] : NULL, BATCH);

	if (argc < 2 || rows == 0 || size == 0)
		return fail("usage", "floor CONNINFO [ROWS [BATCH]]");
	if (make_batches(&batches, rows, size) != 0)
		return 1;
	conn = PQconnectdb(argv[1]);
	return prepare(conn, &batches) != 0 ? 1 : measure(conn, &batches, rows);
}
