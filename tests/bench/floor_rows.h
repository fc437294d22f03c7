/*
 * The rows of the floor: what tests/bench/records.py puts into Kafka, repetitions among it, as inboxd stores
 * it, in batches that are ready to be sent: as binary arrays for an INSERT, or as the data of a binary COPY.
 * Pure; 0.7 kB of memory a row.
 */
#ifndef BENCH_FLOOR_ROWS_H
#define BENCH_FLOOR_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/pg/params.h"

/* The columns of a row, in the order of the statements in floor.c. */
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

/* One transaction. */
struct batch {
	struct params arrays; /* for INSERT */
	struct buf copy;      /* for COPY */
};

struct batches {
	struct batch *items;
	size_t count;
	bool copy; /* which of the two is filled */
};

struct stream {
	uint64_t records;
	uint64_t repeats_of; /* one record in so many repeats an earlier one; 0: none does */
};

/* How many of the records are no repetition. */
uint64_t stream_distinct(const struct stream *stream);

/* The rows of all records, `size` in a batch. 0, or -1 when memory runs out. */
int batches_make(struct batches *batches, const struct stream *stream, uint64_t size);
void batches_fini(struct batches *batches);

#endif
