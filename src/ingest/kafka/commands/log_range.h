/*
 * Finds the beginning and end of a partition's log, and the offset of a time, for `inboxd seek`.
 * Joins no group and commits nothing. Any thread; blocks.
 */
#ifndef INGEST_KAFKA_COMMANDS_LOG_RANGE_H
#define INGEST_KAFKA_COMMANDS_LOG_RANGE_H

#include <stdint.h>

#include "config/config.h"

struct log_question {
	const char *topic;
	int32_t partition;
	int64_t time_ms; /* since 1970; -1: no time is given */
};

struct log_range {
	int64_t begin; /* the first offset that Kafka has */
	int64_t end;   /* the offset of the next record */
	int64_t at; /* offset of the first record from time_ms on, or `end`; -1: no time is given */
};

/* FAULT_CHECK: the topic or partition does not exist. FAULT_KAFKA. */
int ingest_log_range(const struct config *config, const struct log_question *question,
	struct log_range *out, struct err *err);

#endif
