/*
 * Ingest: Kafka to table. One thread that polls, batches, stores, commits offsets, and hands what
 * was born claimed to dispatch through a bounded queue.
 *
 * Promises: an offset is committed only after the COMMIT that stores everything below it (G1); a
 * database that is down pauses partitions and loses nothing (G6); one bad record rejects itself and
 * nothing else (G5).
 */
#ifndef INGEST_INGEST_H
#define INGEST_INGEST_H

#include "base/metrics.h"
#include "base/queue.h"
#include "base/wake.h"
#include "config/config.h"
#include "model/admission.h"
#include "model/commit_handover.h"
#include "model/health.h"
#include "model/supervision.h"

struct ingest;
struct trace;

/* Everything is kept and must outlive the ingest. */
struct ingest_options {
	const struct config *config;
	struct admission *admission;
	struct commit_handover *commit_handover; /* of what is committed and not in the queue yet */
	struct queue *out;                       /* struct handover *, taken by dispatch */
	struct wake *dispatch_wake;              /* poked after each handover */
	struct metrics *metrics;
	struct health *health;
	struct supervision *supervision;
	struct trace *trace; /* NULL = off */
	int32_t instance;    /* store/instance.h */
	int64_t first_low_seq;
};

/* Makes the consumer and checks its configuration: FAULT_CONFIG with librdkafka's own words. Does not
 * connect. */
int ingest_new(struct ingest **out, const struct ingest_options *options, struct err *err);
/* Starts the thread. */
int ingest_start(struct ingest *ingest, struct err *err);
/* Stops consuming: the batch in hand is stored, offsets are committed, the group is left. Returns
 * when the thread has ended or timeout_ms has passed (then 1: a library call hangs; the caller must
 * end the process without freeing, rule R20). */
int ingest_stop(struct ingest *ingest, int64_t timeout_ms);
/* Only after a stop that returned 0, or when never started. */
void ingest_free(struct ingest *ingest);

/* For `inboxd check`: can the cluster be reached, what is its id, do the topics exist? FAULT_KAFKA. */
int ingest_check(const struct config *config, struct buf *report, struct err *err);
/* For `inboxd adopt`: the cluster's id, owned by the caller, and the configured group.id, borrowed. FAULT_KAFKA. */
int ingest_identify(
	const struct config *config, char **cluster_id, const char **group_id, struct err *err);
/* Names librdkafka knows, NULL-terminated, for nearest-name hints and environment variables. Freed
 * with ingest_names_free(). */
int ingest_option_names(char ***out, struct err *err);
void ingest_names_free(char **names);

#endif
