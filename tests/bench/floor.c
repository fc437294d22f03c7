/*
 * The floor: how fast this PostgreSQL takes the rows of the inbox when nothing else is asked of it.
 *
 *	floor CONNINFO insert|copy [RECORDS [CONNECTIONS [REPEATS_OF]]]
 *
 * insert: one prepared INSERT … SELECT unnest … ON CONFLICT DO NOTHING per batch with binary arrays.
 * copy: one binary COPY per batch, which can refuse no duplicate: the limit of the server. Each batch
 * is its own transaction with synchronous commit, into the table that `inboxd migrate` made, found
 * through the search_path of CONNINFO; each connection has a thread and every n-th batch. The rows are
 * made and the connections open before the clock starts, so that only the statements are measured.
 * With REPEATS_OF one record in so many repeats an earlier one, as in the topics of the other measurements;
 * for an INSERT by one connection: two of them would lock the same ids in different orders.
 * Says {"rows":N,"records":N,"seconds":S,"rows_per_second":R,"records_per_second":R} on stdout, and exits
 * non-zero when a single distinct row was not stored.
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time/clock.h"
#include "floor_rows.h"

enum { RECORDS = 300000, BATCH = 2000, MAX_CONNECTIONS = 16 };

#define STATEMENT                                                                                  \
	"INSERT INTO inbox_messages (source, event_id, event_type, topic, kafka_partition,"        \
	" kafka_offset, kafka_timestamp, key, headers, payload, payload_digest, claimed_by,"       \
	" delivery_count) SELECT i.*, 1, 1 FROM unnest($1::text[], $2::text[], $3::text[],"        \
	" $4::text[], $5::int[], $6::bigint[], $7::timestamptz[], $8::bytea[], $9::jsonb[],"       \
	" $10::bytea[], $11::bytea[]) AS i ON CONFLICT (event_id, source, consumer)"               \
	" DO NOTHING"

#define COPY                                                                                       \
	"COPY inbox_messages (source, event_id, event_type, topic, kafka_partition, kafka_offset," \
	" kafka_timestamp, key, headers, payload, payload_digest, claimed_by, delivery_count)"     \
	" FROM STDIN (FORMAT binary)"

/* One connection and its share of the batches: from `first` on, every `step`th. */
struct writer {
	PGconn *conn;
	const struct batches *batches;
	size_t first, step;
	int64_t stored; /* negative: failed */
	pthread_t thread;
};

struct writers {
	struct writer items[MAX_CONNECTIONS];
	size_t count;
};

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "floor: %s: %s\n", what, why);
	return 1;
}

static void writers_fini(struct writers *writers)
{
	for (size_t i = 0; i < writers->count; i++)
		PQfinish(writers->items[i].conn);
}

/* --- One batch: rows stored, or negative ---------------------------------------------------------- */

static int64_t take_count(PGresult *result)
{
	const int64_t stored = PQresultStatus(result) == PGRES_COMMAND_OK
				       ? strtoll(PQcmdTuples(result), NULL, 10)
				       : -1;

	PQclear(result);
	return stored;
}

static int64_t insert(PGconn *conn, const struct params *batch)
{
	const char *values[COLUMNS];
	int lengths[COLUMNS];
	int formats[COLUMNS];

	for (int i = 0; i < COLUMNS; i++) {
		values[i] = batch->values[i].data;
		lengths[i] = (int)batch->values[i].length;
		formats[i] = 1;
	}
	return take_count(PQexecPrepared(conn, "insert", COLUMNS, values, lengths, formats, 1));
}

static int64_t copy(PGconn *conn, const struct buf *batch)
{
	PGresult *result = PQexec(conn, COPY);
	const bool open = PQresultStatus(result) == PGRES_COPY_IN;
	int64_t stored;

	PQclear(result);
	if (!open || PQputCopyData(conn, batch->data, (int)batch->length) != 1 ||
		PQputCopyEnd(conn, NULL) != 1)
		return -1;
	stored = take_count(PQgetResult(conn));
	PQclear(PQgetResult(conn)); /* NULL: the end of the command */
	return stored;
}

/* --- All of them ------------------------------------------------------------------------------------ */

static void *write_share(void *arg)
{
	struct writer *writer = arg;
	const struct batches *batches = writer->batches;

	for (size_t i = writer->first; i < batches->count; i += writer->step) {
		const struct batch *batch = &batches->items[i];
		const int64_t count = batches->copy ? copy(writer->conn, &batch->copy)
						    : insert(writer->conn, &batch->arrays);

		if (count < 0) {
			writer->stored = -1;
			return NULL;
		}
		writer->stored += count;
	}
	return NULL;
}

static int prepare(PGconn *conn, const struct batches *batches)
{
	PGresult *result;
	ExecStatusType status;

	if (PQstatus(conn) != CONNECTION_OK)
		return fail("cannot connect", PQerrorMessage(conn));
	if (batches->copy)
		return 0;
	result = PQprepare(conn, "insert", STATEMENT, COLUMNS, batches->items[0].arrays.types);
	status = PQresultStatus(result);
	PQclear(result);
	return status == PGRES_COMMAND_OK ? 0 : fail("cannot prepare", PQerrorMessage(conn));
}

static int connect_all(struct writers *writers, const char *conninfo, const struct batches *batches,
	size_t connections)
{
	for (size_t i = 0; i < connections; i++) {
		struct writer *writer = &writers->items[writers->count++];

		*writer = (struct writer){ PQconnectdb(conninfo), batches, i, connections, 0, 0 };
		if (prepare(writer->conn, batches) != 0)
			return 1;
	}
	return 0;
}

/* Rows stored; -1 when a writer failed, which is said. */
static int64_t run(struct writers *writers)
{
	int64_t stored = 0;
	size_t started = 0;

	while (started < writers->count && pthread_create(&writers->items[started].thread, NULL,
						   write_share, &writers->items[started]) == 0)
		started++;
	for (size_t i = 0; i < started; i++) {
		struct writer *writer = &writers->items[i];

		(void)pthread_join(writer->thread, NULL);
		if (writer->stored < 0)
			(void)fail("cannot write", PQerrorMessage(writer->conn));
		stored = stored < 0 || writer->stored < 0 ? -1 : stored + writer->stored;
	}
	if (started < writers->count)
		(void)fail("cannot start a thread", "out of resources");
	return started < writers->count ? -1 : stored;
}

static int measure(struct writers *writers, const struct stream *stream)
{
	const uint64_t rows = stream_distinct(stream);
	const int64_t began_us = clock_now_us();
	const int64_t stored = run(writers);
	const double seconds = (double)(clock_now_us() - began_us) / 1e6;

	if (stored < 0)
		return 1;
	if ((uint64_t)stored != rows)
		return fail("rows are missing", "the table was not empty before");
	printf("{\"rows\":%" PRIu64 ",\"records\":%" PRIu64
	       ",\"seconds\":%.3f,\"rows_per_second\":%.0f,"
	       "\"records_per_second\":%.0f}\n",
		rows, stream->records, seconds, (double)rows / seconds,
		(double)stream->records / seconds);
	return 0;
}

static uint64_t number_or(const char *text, uint64_t otherwise)
{
	return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
	CLEANUP(batches_fini) struct batches batches = { .items = NULL };
	CLEANUP(writers_fini) struct writers writers = { .count = 0 };
	const uint64_t connections = number_or(argc > 4 ? argv[4] : NULL, 1);
	const struct stream stream = { .records = number_or(argc > 3 ? argv[3] : NULL, RECORDS),
		.repeats_of = number_or(argc > 5 ? argv[5] : NULL, 0) };

	if (argc < 3 || stream.records == 0 || connections == 0 || connections > MAX_CONNECTIONS)
		return fail(
			"usage", "floor CONNINFO insert|copy [RECORDS [CONNECTIONS [REPEATS_OF]]]");
	batches.copy = strcmp(argv[2], "copy") == 0;
	if (!batches.copy && strcmp(argv[2], "insert") != 0)
		return fail(argv[2], "neither insert nor copy");
	if (stream.repeats_of != 0 && (batches.copy || connections > 1 || stream.repeats_of == 1))
		return fail("repetitions", "not every one, and by one connection that inserts");
	if (batches_make(&batches, &stream, BATCH) != 0)
		return fail("cannot make the rows", "out of memory");
	if (connect_all(&writers, argv[1], &batches, connections) != 0)
		return 1;
	return measure(&writers, &stream);
}
