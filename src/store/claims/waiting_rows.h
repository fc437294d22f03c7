/*
 * Reads the rows that wait in the table without claiming them: the sweep for parked rows, the
 * release of rows that wait only for a handler, and the gauges. No function waits for a message
 * row. Blocking; one db, one thread: a worker's.
 */
#ifndef STORE_CLAIMS_WAITING_ROWS_H
#define STORE_CLAIMS_WAITING_ROWS_H

#include "store/claims/claims.h"

/* One page of a search through the keys of a stream that have waiting rows. */
struct parked_page {
	/* keys whose lowest waiting row is parked although an open handler matches it */
	uint64_t *hashes;
	size_t count;
	uint64_t last; /* the next page starts after this hash */
	bool more;
};
void parked_page_fini(struct parked_page *page);
/* The position of a page. */
struct parked_position {
	struct stream_ref stream;
	const uint64_t *after; /* `last` of the previous page; NULL: the first page */
};
int waiting_rows_find_parked(struct db *db, const struct claim_request *request,
	const struct parked_position *position, struct parked_page *out, struct err *err);
/* Makes parked rows claimable if they wait only for a handler: rows without a key, or every row
 * with ORDERING_NONE. At most max_rows rows; `released` receives their number. */
int waiting_rows_release(struct db *db, const struct claim_request *request,
	const struct stream_ref *stream, int64_t *released, struct err *err);
/* Sets waiting[i] to true if stream i has a row that is due, waits for a retry, or is parked. */
int waiting_rows_any(
	struct db *db, const struct claim_streams *streams, bool *waiting, struct err *err);

/* Inexpensive gauges over some streams. */
struct gauges_request {
	struct claim_streams streams;
	const struct routing *routing; /* the subscriptions */
	int64_t cap;                   /* counting stops at this number */
	bool expensive;                /* also fill the gauges that only operators read */
};
struct gauges {
	int64_t waiting; /* at most `cap` */
	/* age of the oldest due row; without a matching handler, since it was received */
	int64_t oldest_due_ms;
	int64_t dead;     /* at most `cap`; filled when `expensive` is set */
	int64_t unrouted; /* no handler matches them; at most `cap` */
	/* age of the oldest snapshot in the server; filled when `expensive` is set */
	int64_t snapshot_ms;
};
int waiting_rows_gauges(
	struct db *db, const struct gauges_request *request, struct gauges *out, struct err *err);

#endif
