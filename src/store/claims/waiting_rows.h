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

struct look_request {
	int32_t instance;
	struct claim_streams streams; /* whose due rows this instance may claim */
	int64_t lease_ms;
	int64_t memory_ms; /* inbox.handler_memory */
};
/* What the periodic reads of the table would find. A version changes with what it stands for; it is never 0. */
struct table_look {
	int64_t due_in_ms; /* until a row of the streams is due; 0: it is; INT64_MAX: none will be */
	int64_t handlers_version;  /* known_exchange() */
	int64_t consumers_version; /* known_consumers_read(), watermarks_peek() */
	bool orphans;              /* watermarks_orphans() */
	bool retained_elsewhere; /* another instance runs retention: retain_run() would do nothing */
};
int waiting_rows_look(
	struct db *db, const struct look_request *request, struct table_look *out, struct err *err);

/* What waits for one consumer. */
struct backlog {
	char *consumer;  /* owned; "" = the one without a name */
	int64_t waiting; /* at most `cap`; for a consumer that is not known, with the parked rows */
	/* age of the oldest due row; without a matching handler, since it was received */
	int64_t oldest_due_ms; /* without what is paused */
	int64_t unrouted;      /* no handler matches them; at most `cap` */
	int64_t held;          /* the same, but they wait for the end of a pause */
};
struct backlogs {
	struct backlog *items;
	size_t count;
};
void backlogs_fini(struct backlogs *backlogs);
/* The backlog of this consumer, or NULL. */
struct backlog *backlogs_find(const struct backlogs *backlogs, const char *consumer);
/* Adds an empty backlog; it is valid until the next call. NULL: no memory. */
struct backlog *backlogs_add(struct backlogs *backlogs, const char *consumer);

/* Inexpensive gauges over some streams. */
struct gauges_request {
	struct claim_streams streams;  /* the partitions, each with all known consumers */
	const struct routing *routing; /* the subscriptions */
	int64_t cap;                   /* counting stops at this number */
	bool expensive;                /* also fill the gauges that only operators read */
};
struct gauges {
	struct backlogs known; /* the caller adds the known consumers */
	/* The next ones are filled when `expensive` is set. */
	struct backlogs
		for_nobody; /* consumers that are not known and have rows; at most `cap` rows in all */
	int64_t dead;       /* at most `cap` */
	int64_t snapshot_ms; /* age of the oldest snapshot in the server */
	int64_t unattended; /* events of the outbox that no instance publishes; at most 2 * `cap` */
};
void gauges_fini(struct gauges *gauges);
int waiting_rows_gauges(
	struct db *db, const struct gauges_request *request, struct gauges *out, struct err *err);

#endif
