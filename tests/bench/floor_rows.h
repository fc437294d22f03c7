/*
 * The rows of the floor: what tests/bench/records.py puts into Kafka, as inboxd stores it, in batches
 * that are ready to be sent: as binary arrays for an INSERT, or as the data of a binary COPY.
 * Pure; 0.7 kB of memory a row.
 */
#ifndef BENCH_FLOOR_ROWS_H
#define BENCH_FLOOR_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/params.h"

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

/* `rows` rows, `size` in a batch. 0, or -1 when memory runs out. */
int batches_make(struct batches *batches, uint64_t rows, uint64_t size);
void batches_fini(struct batches *batches);

#endif
