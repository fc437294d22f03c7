/*
 * A consumer for a question at the command line: it joins no group, commits nothing, and keeps what librdkafka
 * complains of to itself until somebody asks. One thread; the calls block as long as they say.
 */
#ifndef INGEST_PROBE_H
#define INGEST_PROBE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"
#include "ingest/tls_errors.h"

struct probe {
	struct tls_errors trust; /* first: see tls_errors_listen() */
	rd_kafka_t *kafka;
	const struct config *config; /* borrowed, until probe_close() */
	bool all_down;               /* each of them was tried, and none was reached */
	rd_kafka_resp_err_t last_code;
	char last_error[512]; /* what librdkafka said last: better than "timed out" */
};

/* Waits for no broker. `eof`: the end of a partition comes as an event. FAULT_CONFIG. An open probe must not be
 * moved. */
int probe_open(struct probe *probe, const struct config *config, bool eof, struct err *err);
/* Does nothing to one that is zero. */
void probe_close(struct probe *probe);
/* As rd_kafka_metadata(). Waits up to ten seconds; less when no broker can be reached. */
rd_kafka_resp_err_t probe_metadata(struct probe *probe, bool all, rd_kafka_topic_t *only,
	const struct rd_kafka_metadata **out);
/* The cluster's id, malloc'ed, or NULL; as long. */
char *probe_cluster_id(struct probe *probe);
/* FAULT_KAFKA: no broker `what` ("answered"), what librdkafka said of that, else `otherwise`, and what to do
 * where that is known. */
int probe_no_answer(struct probe *probe, const char *what, const char *otherwise, struct err *err);

/* How many partitions the topic has. FAULT_CHECK: there is no such topic, or it lacks the partition (-1: any).
 * FAULT_KAFKA. Waits up to ten seconds. */
int probe_topic(struct probe *probe, const char *topic, int64_t partition, int32_t *partitions,
	struct err *err);

#endif
