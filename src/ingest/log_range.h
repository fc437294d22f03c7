/*
 * Where the log of a partition begins and ends, and which of its records a time means, for a command. Joins no group,
 * commits nothing. Any thread; blocks.
 */
#ifndef INGEST_LOG_RANGE_H
#define INGEST_LOG_RANGE_H

#include <stdint.h>

#include "config/config.h"

struct log_question {
	const char *topic;
	int32_t partition;
	int64_t time_ms; /* since 1970; -1: no time is meant */
};

struct log_range {
	int64_t begin; /* the first offset that Kafka has */
	int64_t end;   /* the next one it will give */
	int64_t at; /* of the first record from a time on, `end` when there is none; -1: no time is meant */
};

/* FAULT_CHECK: there is no such topic or partition. FAULT_KAFKA. */
int ingest_log_range(const struct config *config, const struct log_question *question,
	struct log_range *out, struct err *err);

#endif
