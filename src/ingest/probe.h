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
#include "ingest/trust.h"

struct probe {
	struct trust trust; /* first: see trust_listen() */
	rd_kafka_t *kafka;
	const struct config *config; /* borrowed, until probe_close() */
	rd_kafka_resp_err_t last_code;
	char last_error[512]; /* what librdkafka said last: better than "timed out" */
};

/* Waits for no broker. `eof`: the end of a partition comes as an event. FAULT_CONFIG. An open probe must not be
 * moved. */
int probe_open(struct probe *probe, const struct config *config, bool eof, struct err *err);
/* Does nothing to one that is zero. */
void probe_close(struct probe *probe);
/* FAULT_KAFKA: no broker `what` ("answered"), what librdkafka said of that, else `otherwise`, and what to do
 * where that is known. */
int probe_no_answer(struct probe *probe, const char *what, const char *otherwise, struct err *err);

/* How many partitions the topic has. FAULT_CHECK: there is no such topic, or it lacks the partition (-1: any).
 * FAULT_KAFKA. Waits up to ten seconds. */
int probe_topic(struct probe *probe, const char *topic, int64_t partition, int32_t *partitions,
	struct err *err);

#endif
