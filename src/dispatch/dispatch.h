/*
 * Dispatch: from memory to handlers and back. One thread runs the event loop that owns the socket,
 * every session, lane and entry; the worker pool does its SQL.
 *
 * Promises: a message is delivered only while this instance holds its claim; of one key one delivery
 * at a time, in Kafka order (G4); what a handler does or fails to do disturbs no other handler (G5);
 * a verdict is kept until PostgreSQL has it (G6).
 */
#ifndef DISPATCH_DISPATCH_H
#define DISPATCH_DISPATCH_H

#include <stdatomic.h>

#include "base/metrics.h"
#include "base/queue.h"
#include "base/wake.h"
#include "config/config.h"
#include "model/admission.h"
#include "model/bounds.h"
#include "model/commit_handover.h"
#include "model/health.h"
#include "model/supervision.h"

struct dispatch;
struct trace;

/* Everything is kept and must outlive the dispatch. */
struct dispatch_options {
	const struct config *config;
	struct admission *admission;
	const struct commit_handover *commit_handover;
	struct queue *in;  /* struct handover * */
	struct wake *wake; /* poked by ingest and by the workers */
	struct metrics *metrics;
	struct health *health;
	struct supervision *supervision;
	struct trace *trace; /* NULL = off */
	int32_t instance;
	int64_t first_low_seq;
	_Atomic int64_t
		*pg_offset_ms; /* PostgreSQL's clock minus clock_now_ms(), set by the heartbeat */
	int listen_fd;         /* from socket_listen(); taken */
};

int dispatch_new(struct dispatch **out, const struct dispatch_options *options, struct err *err);
int dispatch_start(struct dispatch *dispatch, struct err *err);

/* Of every born-claimed row this instance holds or may hold (rule R3). Any thread. */
void dispatch_bounds(struct dispatch *dispatch, struct bounds *out);
/* Lower bound of the claim number of every other row it holds or may hold. Any thread. */
int64_t dispatch_low_claim(const struct dispatch *dispatch);
/* Writes the connected handlers as a JSON array for inbox_instances.handlers. Any thread. */
void dispatch_handlers(struct dispatch *dispatch, struct buf *out);
/* The same of those that are known and not connected here. */
void dispatch_handlers_away(struct dispatch *dispatch, struct buf *out);

/* Begins the end and returns: nothing new is delivered, what is queued goes back to waiting at once,
 * what is delivered may finish until deadline_ms (clock_now_ms()). Any thread. */
void dispatch_begin_stop(struct dispatch *dispatch, int64_t deadline_ms);
/* After ingest has ended: waits until everything is settled or the deadline has passed and the thread
 * is gone, at most two seconds longer; 1 when a call hangs. */
int dispatch_finish(struct dispatch *dispatch);
/* Takes over the limits and rules of another configuration, which is kept like the first. */
void dispatch_reload(struct dispatch *dispatch, const struct config *config);
/* Ends it at once without settling: the lease is lost and everything held belongs to others.
 * Deliveries are cancelled with reason lease_lost. Blocks as above, a few seconds at most. */
int dispatch_abandon(struct dispatch *dispatch);
/* Only after one of the two returned 0, or when never started. */
void dispatch_free(struct dispatch *dispatch);

#endif
