/*
 * A consumer for one request of the command line. It joins no group and commits nothing. It keeps
 * librdkafka's error messages until the caller asks for them. Each call blocks for at most the time
 * given below. One thread.
 */
#ifndef INGEST_KAFKA_PROBE_H
#define INGEST_KAFKA_PROBE_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"
#include "ingest/kafka/tls_errors.h"

struct probe {
	struct tls_errors trust; /* first: see tls_errors_register() */
	rd_kafka_t *kafka;
	const struct config *config; /* borrowed until probe_close() */
	bool all_down;               /* librdkafka tried every broker and reached none */
	rd_kafka_resp_err_t last_code;
	char last_error[512]; /* the last error of librdkafka; more precise than "timed out" */
};

/* Does not wait for a broker. `eof`: the end of a partition is returned as an event. FAULT_CONFIG.
 * An open probe must not be moved in memory, because librdkafka keeps its address. */
int probe_open(struct probe *probe, const struct config *config, bool eof, struct err *err);
/* Does nothing for a zeroed probe. */
void probe_close(struct probe *probe);
/* Like rd_kafka_metadata(). Waits up to ten seconds, less when no broker can be reached. */
rd_kafka_resp_err_t probe_metadata(struct probe *probe, bool all, rd_kafka_topic_t *only,
	const struct rd_kafka_metadata **out);
/* The id of the cluster, malloc'ed, or NULL; the same time limit. */
char *probe_cluster_id(struct probe *probe);
/* Sets FAULT_KAFKA: no broker did `what` (for example "answered"), the reason of librdkafka or else
 * `otherwise`, and advice if the cause is known. */
int probe_no_answer(struct probe *probe, const char *what, const char *otherwise, struct err *err);

/* The number of partitions of the topic. FAULT_CHECK: the topic does not exist, or it lacks this
 * partition (-1: any). FAULT_KAFKA. Waits up to ten seconds. */
int probe_topic(struct probe *probe, const char *topic, int64_t partition, int32_t *partitions,
	struct err *err);

#endif
