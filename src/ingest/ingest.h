/*
 * Ingest: from Kafka to the table. One thread polls records, collects batches, stores them, commits
 * offsets, and hands messages that were born claimed to dispatch through a bounded queue.
 *
 * Promises: an offset is committed only after the COMMIT that stores everything below it (G1). When
 * the database is unreachable, partitions are paused and nothing is lost (G6). A bad record rejects
 * only itself (G5).
 */
#ifndef INGEST_INGEST_H
#define INGEST_INGEST_H

#include "base/threads/queue.h"
#include "base/threads/wake.h"
#include "config/config.h"
#include "model/admission/admission.h"
#include "model/message/handover.h"
#include "report/health.h"
#include "report/metrics.h"
#include "report/supervision.h"

struct ingest;
struct trace;

/* Keeps everything; it must outlive the ingest. */
struct ingest_options {
	const struct config *config;
	/* the renames at the start of the instance run; another one ends the run */
	const struct consumers *names;
	const struct consumers *own; /* those that the configuration lists */
	struct admission *admission;
	/* marks messages that are committed and not yet in the queue */
	struct commit_handover *commit_handover;
	struct queue *out;          /* struct handover *, received by dispatch */
	struct wake *dispatch_wake; /* woken after each handover */
	struct metrics *metrics;
	struct health *health;
	struct supervision *supervision;
	struct trace *trace; /* NULL = tracing is off */
	int32_t instance;    /* see store/leases/instance.h */
	int64_t first_low_seq;
};

/* Creates the consumer and checks its configuration: FAULT_CONFIG with librdkafka's text. Does not
 * connect. */
int ingest_new(struct ingest **out, const struct ingest_options *options, struct err *err);
/* Starts the thread. */
int ingest_start(struct ingest *ingest, struct err *err);
/* Any thread. The next note of the own consumers uses inbox.handler_memory of this configuration, which is kept. Accepts NULL. */
void ingest_reload(struct ingest *ingest, const struct config *config);
/* Stops consuming: stores the current batch, commits offsets and leaves the group. Returns 0 when
 * the thread has ended. Returns 1 when timeout_ms has passed, because a library call hangs; the
 * caller must then end the process without freeing the object (rule R20). Accepts NULL. */
int ingest_stop(struct ingest *ingest, int64_t timeout_ms);
/* Call it only after ingest_stop() returned 0, or if the thread was never started. */
void ingest_free(struct ingest *ingest);

/* For `inboxd check`: checks that the cluster is reachable and that the topics exist, and reports
 * the cluster id. FAULT_KAFKA, FAULT_CHECK. */
int ingest_check(const struct config *config, struct buf *report, struct err *err);
/* For `inboxd adopt`: the id of the cluster, owned by the caller, and the configured group.id,
 * borrowed. FAULT_KAFKA. */
int ingest_identify(
	const struct config *config, char **cluster_id, const char **group_id, struct err *err);
/* The setting names that librdkafka knows, NULL-terminated, for hints in errors and for environment
 * variables. Free with ingest_names_free(). */
int ingest_option_names(char ***out, struct err *err);
void ingest_names_free(char **names);
/* The values that librdkafka accepts for a setting; NULL: it lists none, or there is no memory. Free it. */
char *ingest_option_range(const char *name);
/* For `inboxd version`: the librdkafka that is loaded. Appends its version, and its features with commas between them. Returns its
 * origin: "static" or "shared". */
const char *ingest_describe_library(struct buf *version, struct buf *features);

#endif
