/*
 * Shows in inboxd_pg_connections in which state a connection is. One a connection; its thread. Without metrics
 * it does nothing.
 */
#ifndef STORE_CENSUS_H
#define STORE_CENSUS_H

#include "base/metrics.h"

enum census_state {
	CENSUS_CLOSED,
	CENSUS_IDLE,
	CENSUS_BUSY,        /* waits for the server's answer */
	CENSUS_TRANSACTION, /* open between two statements */
	CENSUS_STATES,
};

struct census {
	struct metric *gauges[CENSUS_STATES]; /* NULL: nobody wants to know */
	enum census_state state;
};

/* Counts one more, closed. `metrics` (may be NULL) is kept. */
void census_enter(struct census *census, struct metrics *metrics);
void census_move(struct census *census, enum census_state state);
/* Counts one less. Also of one that never entered, zeroed. */
void census_leave(struct census *census);

#endif
