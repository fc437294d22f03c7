/*
 * What the loop (ingest.c) calls of this room, in the order of a round. A step that is not due returns at once; the
 * others wait for a server at most as long as they say. None of them stores a batch: while a batch is sent, the loop
 * calls store_batch_finish() before it calls anything here. The ingest thread.
 */
#ifndef INGEST_PARTITIONS_STEPS_H
#define INGEST_PARTITIONS_STEPS_H

#include "ingest/state.h"

/* --- A round ----------------------------------------------------------------------------------- */

/* group_membership.c: joins or leaves the group. The instance leaves when its lease may have expired, or when it lacks
 * a handler that another member has, so that partitions go to members that can process them (rules R6, R16). Also logs
 * a rebalance that takes long. Does not wait for Kafka. */
void group_membership_step(struct ingest *ingest);
/* db_outage.c: ends the outage when the time of the next attempt has come and the database answers. */
void db_outage_step(struct ingest *ingest);
/* rebalance.c: binds the schema to this cluster and group. False: not yet, or the instance is fenced because Kafka
 * and the table disagree about an owner. */
bool rebalance_step(struct ingest *ingest);
/* acquire.c: acquires the partitions that Kafka has assigned, and continues the searches for a limited time. Every third
 * of a lease it reads the known consumers first. Blocks for the database. */
void acquire_step(struct ingest *ingest);
/* adoption.c: every few seconds, adopts partitions that are assigned to no member although messages of them wait,
 * for example because a topic was removed from the configuration, or because Kafka is unreachable for a long time. An
 * instance that has a handler for such messages becomes the owner, for dispatch only. A later assignment takes the
 * partition away like any other (rule R6). Also gives up partitions that no handler here accepts or that another
 * instance has taken. */
void adoption_step(struct ingest *ingest);
/* flow.c: verifies partitions again that did not flow for a while and may flow now: their topics may have been created
 * again meanwhile. */
void flow_recheck_stopped(struct ingest *ingest);
/* start_offset.c: decides where reading begins. A TAKEN partition becomes READING when Kafka has answered for it. A
 * partition that a broker could not answer for is asked for again one second later. Waits up to a tenth of a second. */
void start_offset_step(struct ingest *ingest);
/* flow.c: resumes every partition that is ready, unless a hold is set. */
void flow_step(struct ingest *ingest);
/* commit_offsets.c: sends stored offsets that are not committed yet, at most every 200 ms. */
void commit_offsets_step(struct ingest *ingest);
/* db_outage.c: looks whether an operator or another instance has changed a watermark. Blocks for the database. */
void db_outage_peek(struct ingest *ingest);

/* True when a search of acquire.c is not complete: the next round should start soon. */
bool acquire_is_under_way(const struct ingest *ingest);

/* --- Events of Kafka --------------------------------------------------------------------------- */

/* rebalance.c. `lost`: the group has already taken the partitions away. */
void rebalance_assigned(struct ingest *ingest, const struct partition_offset *items, size_t count);
void rebalance_revoked(
	struct ingest *ingest, const struct partition_offset *items, size_t count, bool lost);
/* group_membership.c: logs why the client has ended, and asks for another instance run, whose client joins the group after a pause. Blocks
 * for the database. */
void group_membership_ended(struct ingest *ingest, const struct client_end *end);
/* commit_offsets.c: an asynchronous commit failed; the offset must be sent again. */
void commit_offsets_failed(void *arg, const struct partition_offset *item);
/* flow.c: verifies a READING partition again, because its topic may have been recreated or because librdkafka moved
 * to another offset. */
void flow_recheck(struct ingest *ingest, struct partition *partition);

/* --- The stop ---------------------------------------------------------------------------------- */

/* Commits the offsets of all partitions and waits for the answer. */
void commit_offsets_all(struct ingest *ingest, int timeout_ms);
/* Gives up all adopted partitions. Best effort: a row that names an ended instance does not stop the next owner. */
void adoption_end(struct ingest *ingest);
/* Drops all searches; their partitions would be acquired again. */
void acquire_drop_all(struct ingest *ingest);

/* --- Between the files of this room ------------------------------------------------------------ */

/*
 * acquire.c. Starts the search for partitions whose rows this instance has just taken; takes `rows`. When the
 * search is complete, dispatch receives the partitions together with the rows of others, and the
 * partitions enter `state`, TAKEN or ADOPTED. A partition that was revoked or taken again in the
 * meantime is left out.
 */
int acquire_begin(struct ingest *ingest, struct watermarks *rows, enum partition_state state,
	struct err *err);
/* acquire.c. Reads the known consumers after partitions were taken. If there are new ones, the other partitions of this
 * instance are acquired again. TAKE_AGAIN: a new consumer has a stricter ordering than the rows were taken with. */
enum { TAKE_AGAIN = 100 }; /* not an outcome of the store */
int acquire_read_audience(struct ingest *ingest, enum ordering taken_with, struct err *err);
/* commit_offsets.c. Commits the offsets of the partitions that are due, and waits for the answer. */
void commit_offsets_due(struct ingest *ingest, int timeout_ms);

#endif
