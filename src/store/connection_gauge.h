/*
 * Shows in inboxd_pg_connections in which state a connection is. One a connection; its thread. Without metrics
 * it does nothing.
 */
#ifndef STORE_CONNECTION_GAUGE_H
#define STORE_CONNECTION_GAUGE_H

#include "base/metrics.h"

enum connection_state {
	CONNECTION_CLOSED,
	CONNECTION_IDLE,
	CONNECTION_BUSY,        /* waits for the server's answer */
	CONNECTION_TRANSACTION, /* open between two statements */
	CONNECTION_STATES,
};

struct connection_gauge {
	struct metric *gauges[CONNECTION_STATES]; /* NULL: nobody wants to know */
	enum connection_state state;
};

/* Counts one more, closed. `metrics` (may be NULL) is kept. */
void connection_gauge_enter(struct connection_gauge *gauge, struct metrics *metrics);
void connection_gauge_move(struct connection_gauge *gauge, enum connection_state state);
/* Counts one less. Also of one that never entered, zeroed. */
void connection_gauge_leave(struct connection_gauge *gauge);

#endif
