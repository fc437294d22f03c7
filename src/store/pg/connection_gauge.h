/*
 * Shows the state of a connection in the metric inboxd_pg_connections. One object per connection,
 * used by the thread of that connection. Without metrics the functions do nothing.
 */
#ifndef STORE_PG_CONNECTION_GAUGE_H
#define STORE_PG_CONNECTION_GAUGE_H

#include "base/metrics.h"

enum connection_state {
	CONNECTION_CLOSED,
	CONNECTION_IDLE,
	CONNECTION_BUSY,        /* waits for the answer of the server */
	CONNECTION_TRANSACTION, /* a transaction is open, between two statements */
	CONNECTION_STATES,
};

struct connection_gauge {
	struct metric *gauges[CONNECTION_STATES]; /* NULL: no metrics */
	enum connection_state state;
};

/* Counts one more connection, in the state closed. Keeps `metrics`, which may be NULL. */
void connection_gauge_enter(struct connection_gauge *gauge, struct metrics *metrics);
void connection_gauge_move(struct connection_gauge *gauge, enum connection_state state);
/* Counts one connection less. A zeroed gauge that never entered is allowed. */
void connection_gauge_leave(struct connection_gauge *gauge);

#endif
