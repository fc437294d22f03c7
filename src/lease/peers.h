/*
 * What a live instance does for the others: it fences dead instances, rescues their rows, and leaves the group if another
 * member has a handler that is missing here (rules R4, R5 and R16). A thread of its own, and a connection while there is such work: it
 * waits for locks and for large tables, and no heartbeat may wait behind it.
 */
#ifndef LEASE_PEERS_H
#define LEASE_PEERS_H

#include "lease/heartbeat.h"

struct peers;

/* Keeps everything; it must outlive the peers. */
struct peers_options {
	const struct config *config;
	struct metrics *metrics;
	struct health *health;
	const struct heartbeat *heartbeat; /* started before the peers */
	int32_t instance;
	/* identifies the socket lock, in the first instance run of a process; otherwise "" */
	const char *host_id;
	int32_t earlier; /* the previous instance of this process; 0 = none */
};

int peers_new(struct peers **out, const struct peers_options *options, struct err *err);
/*
 * Runs the first round, before the thread starts and before anything is consumed. It fences earlier
 * instances with the same host_id, and the previous instance of this process. Later rounds do not
 * do that: a later instance with an equal host_id belongs to another process, and two processes
 * would fence each other again and again. The rows of the fenced instances are set to waiting, so
 * that their keys need not be held (rule R12). If that takes longer than a third of a lease, the
 * thread continues. Blocks for the database.
 */
void peers_fence_earlier(struct peers *peers);
int peers_start(struct peers *peers, struct err *err);
/* Asks the thread to end at once, without waiting for the answer of a running statement. */
void peers_begin_stop(struct peers *peers);
/* Waits for its end. */
void peers_stop(struct peers *peers);
void peers_free(struct peers *peers);

#endif
