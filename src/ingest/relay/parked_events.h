/*
 * The parked events that a pass may send: those of the table, and those that are parked in memory only, because their rows were
 * locked (unrecorded.h). One thread.
 */
#ifndef INGEST_RELAY_PARKED_EVENTS_H
#define INGEST_RELAY_PARKED_EVENTS_H

#include "ingest/relay/flight.h"

struct parked_page {
	const struct rows *rows; /* of relay_parked() */
	int64_t after;           /* the last seq of the page before */
	bool last;               /* there is no further page */
};

/* Gives the seqs of the events that no hold keeps, in their order. The caller frees them. */
int parked_events_list(struct flight *flight, const struct parked_page *page, int64_t **out,
	size_t *count, struct err *err);

#endif
