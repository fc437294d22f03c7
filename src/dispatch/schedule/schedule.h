/*
 * Deliveries: which connection gets which message and when, and how a delivery ends without an answer.
 *
 *	scheduler.c      delivers what is ready while connections have room
 *	suspects.c       delivers suspects alone
 *	delivery.c       opens a delivery and writes its line, cancels and closes it
 *	ordered_batch.c  several messages of one key in a batch: what is behind one that was not finished
 *	limits.c         deadlines of deliveries, and the memory that one handler can take
 *
 * Dispatch thread only; nothing here blocks.
 */
#ifndef DISPATCH_SCHEDULE_SCHEDULE_H
#define DISPATCH_SCHEDULE_SCHEDULE_H

#include "dispatch/schedule/connection.h"
#include "dispatch/table/table.h"
#include "model/event/event.h"

/* A deliver_batch request whose answer has not arrived, or a call of a SQL handler that has not ended. Freed when the last of
 * its entries is closed. */
struct call {
	char id[24]; /* the id of the request, "b17" */
	struct connection *connection;
	TAILQ_HEAD(, entry) entries;
	UT_hash_handle hh;
};

struct schedule {
	struct context *context;
	struct order *order;
	struct handler_groups *groups;
	struct table *table;
	struct call *calls; /* by id */
	uint64_t next_call;
	size_t turn; /* place in the list of handlers of the one that comes first */
	struct event_renderer *renderer;
	struct digester *digester; /* for the tags of claims */
	struct buf rendered;       /* scratch: the event of one message */
	struct buf line;           /* scratch: the line to send */
};

/* FAULT_MEMORY. */
int schedule_init(struct schedule *schedule, struct handler_groups *groups, struct err *err);
void schedule_fini(struct schedule *schedule);

/* Delivers READY entries while connections have room for them. */
void scheduler_run(struct schedule *schedule, int64_t now_ms);

/* --- suspects.c --- */

/* Reserves connections for the group's suspects. */
void suspects_reserve(struct schedule *schedule, struct handler_group *group);
/* Continues with the suspects whose connection is empty: first the crash count is raised in the table, then the
 * suspect is delivered. */
void suspects_continue(struct schedule *schedule);
/* Sets how many deliveries may be open on the connection. 0 pauses it: its suspect is released to another connection. */
void schedule_set_window(struct schedule *schedule, struct connection *connection, size_t window);
/* Releases the suspect that waits for this connection to be empty. It becomes READY again. */
void suspects_release_of(struct schedule *schedule, struct connection *connection);
/* Releases those of the streams that were revoked or are paused or, with `all`, all. */
void suspects_release(struct schedule *schedule, bool all);

/* --- delivery.c --- */

/* The id of a delivery in the protocol: "d9001.2". */
#define DELIVERY_ID_BYTES 48
void delivery_id(const struct entry *entry, char out[DELIVERY_ID_BYTES]);
/* Opens these entries on the connection and writes one deliver or deliver_batch line. */
void delivery_send(struct schedule *schedule, struct connection *connection, struct entry **entries,
	size_t count);
/* A delivery is over: it was answered, timed out or cancelled, or its connection ended. Removes it from its connection.
 * The caller gives it a verdict. */
void delivery_close(struct schedule *schedule, struct entry *entry);
/* Ends the delivery of an entry that is behind `first` in an ordered batch. `first` has a verdict and was not finished,
 * so the entry goes back to the table. */
void delivery_skip(struct schedule *schedule, struct entry *entry, const struct entry *first);
/* Tells the handler that the result of this delivery will not be used. */
void delivery_cancel(struct schedule *schedule, const struct entry *entry, const char *reason);
/* Cancels all open deliveries. They go back to the table. */
void deliveries_cancel_all(struct schedule *schedule, const char *reason);
/* The connection ends. Its open deliveries get the verdict of a lost connection, but in an ordered batch only the first
 * of each lane. */
void deliveries_lose(struct schedule *schedule, struct connection *connection);
/* Nothing was sent, for lack of memory: the open deliveries of the connection go back to the table, and nothing is counted. */
void deliveries_fail(struct schedule *schedule, struct connection *connection);
/* Sets the deadline of an open delivery, or the entry's limit if that is earlier. */
void delivery_extend(struct entry *entry, int64_t deadline_ms);
/* Partitions were revoked. Their open deliveries may finish within one more timeout of their handler, and no extension goes
 * beyond that (rule R12): the new owner waits for them. */
void deliveries_bound(struct schedule *schedule);

/* --- limits.c --- */

/* Ends deliveries whose deadline has passed, and parks what a handler holds above its share of memory. */
void limits_tick(struct schedule *schedule, int64_t now_ms);

#endif
