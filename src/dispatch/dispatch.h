/*
 * Dispatch delivers claimed messages to handlers and writes their verdicts to the table. One thread runs an event loop.
 * It owns the handler socket and all sessions, lanes and entries. A pool of workers executes its SQL.
 *
 * Promises:
 * - A message is delivered only while this instance holds its claim.
 * - Of one key one message, or one ordered batch, is delivered at a time, in the order of Kafka (G4).
 * - A handler that is slow, silent or wrong does not disturb another handler (G5).
 * - A verdict is kept until PostgreSQL has it (G6).
 */
#ifndef DISPATCH_DISPATCH_H
#define DISPATCH_DISPATCH_H

#include <stdatomic.h>

#include "base/threads/queue.h"
#include "base/threads/wake.h"
#include "config/config.h"
#include "model/admission/admission.h"
#include "model/message/handover.h"
#include "report/health.h"
#include "report/metrics.h"
#include "report/supervision.h"
#include "store/leases/instance.h"

struct dispatch;
struct trace;

/* Pointers are kept; what they point to must live longer than the dispatch. */
struct dispatch_options {
	const struct config *config;
	const struct consumers
		*names;              /* the renames at the start of the instance run; NULL: none */
	const struct consumers *own; /* the consumers that this instance lists */
	struct admission *admission;
	const struct commit_handover *commit_handover;
	struct queue *in;    /* struct handover * */
	struct wake *wake;   /* poked by ingest and by the workers */
	struct wake *outbox; /* poked when there are new events; NULL: nobody publishes them here */
	struct metrics *metrics;
	struct health *health;
	struct supervision *supervision;
	struct trace *trace; /* NULL = no spans */
	int32_t instance;
	struct claim_secret claim_secret;
	int64_t first_low_seq; /* all rows of this instance have this seq or a higher one */
	_Atomic int64_t
		*pg_offset_ms; /* PostgreSQL's clock minus clock_now_ms(), set by the heartbeat */
	int listen_fd;         /* from socket_listen(); dispatch closes it */
};

/* Creates dispatch and its workers, without connecting to the database. FAULT_MEMORY, FAULT_SOCKET, FAULT_INTERNAL. */
int dispatch_new(struct dispatch **out, const struct dispatch_options *options, struct err *err);
/* Starts the thread. */
int dispatch_start(struct dispatch *dispatch, struct err *err);

/* The bounds of all born-claimed rows that this instance holds or may hold (rule R3). Any thread. */
void dispatch_bounds(struct dispatch *dispatch, struct bounds *out);
/* A lower bound of the claim numbers of all other rows that it holds or may hold. Any thread. */
int64_t dispatch_low_claim(const struct dispatch *dispatch);
/* Writes the connected handlers as a JSON array for inbox_instances.handlers. Any thread. */
void dispatch_handlers(struct dispatch *dispatch, struct buf *out);
/* The same for handlers that are known and not connected here. */
void dispatch_handlers_away(struct dispatch *dispatch, struct buf *out);
/* Writes what operators have paused as a JSON array. Any thread. */
void dispatch_paused(struct dispatch *dispatch, struct buf *out);

/* Starts the stop and returns. Nothing new is delivered, queued messages go back to waiting at once, and open
 * deliveries may finish until deadline_ms (clock_now_ms()). Any thread. */
void dispatch_begin_stop(struct dispatch *dispatch, int64_t deadline_ms);
/* Call it after ingest has ended. Waits until everything is settled or the deadline has passed, and the thread has
 * ended: at most two seconds beyond the deadline. 1: the thread has not ended, because a call hangs. */
int dispatch_finish(struct dispatch *dispatch);
/* Uses the limits and rules of another configuration from the next tick on. The configuration is kept. Any thread. */
void dispatch_reload(struct dispatch *dispatch, const struct config *config);
/* Ends dispatch at once, without settling: the lease is lost, and the claimed rows belong to other instances. Open
 * deliveries are cancelled with the reason lease_lost. Blocks for two seconds at most. 1 as above. */
int dispatch_abandon(struct dispatch *dispatch);
/* Only after dispatch_finish() or dispatch_abandon() returned 0, or if the thread was never started. */
void dispatch_free(struct dispatch *dispatch);

#endif
