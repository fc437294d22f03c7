/*
 * Looks through the seqs up to the tip for events that appeared there: a restore, an INSERT with a seq of its own, or a state that
 * somebody has cleared. It goes from the lowest seq to the tip, in ranges. A range is as long as can be read in some
 * milliseconds, because rows that are kept, and index entries that an open transaction keeps, cost time, too.
 *
 * After the election it goes on without a pause to the tip. Later it reads for some milliseconds each second, and rests for ten
 * seconds at the tip. One thread.
 */
#ifndef INGEST_RELAY_LOW_SWEEP_H
#define INGEST_RELAY_LOW_SWEEP_H

#include "store/outbox/relay_rows.h"

struct low_sweep {
	int64_t after; /* everything up to this seq was looked at */
	int64_t tip;
	int64_t width; /* of the next range */
	int64_t read_ms;
	bool going;    /* has not reached the tip */
	bool complete; /* has reached the tip since the election */
};

/* At the election. */
void low_sweep_begin(struct low_sweep *sweep);
/* True: a turn begins, which ends at this tip. */
bool low_sweep_is_due(struct low_sweep *sweep, int64_t tip);
/* True: the turn that began at this time goes on. */
bool low_sweep_goes_on(const struct low_sweep *sweep, int64_t began_ms);
/* Reads the next range, or the first fresh rows of it. */
int low_sweep_read(struct low_sweep *sweep, struct db *db, struct relay_page page,
	struct rows **rows, struct err *err);

#endif
