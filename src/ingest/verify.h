/*
 * Proves for a range of records that each of them is in the table: reads them again with a consumer
 * that joins no group and commits nothing, identifies each with the configured rules, and looks it
 * up. Any thread; blocks.
 */
#ifndef INGEST_VERIFY_H
#define INGEST_VERIFY_H

#include <stdint.h>

#include "config/config.h"
#include "store/pg/db.h"

struct verify_counts {
	int64_t records;
	int64_t stored;
	int64_t duplicates;
	int64_t conflicts;
	int64_t rejected;
	int64_t skipped; /* their type is not accepted */
	int64_t missing; /* not found in any table */
};

struct verify_request {
	const struct config *config;
	struct db *db; /* open */
	const char *topic;
	int64_t partition; /* -1: all partitions */
	int64_t from;      /* -1: the first offset that Kafka has */
	int64_t to;        /* end of the range, exclusive; -1: as far as inboxd has read */
	/* Offsets `first` to `last` of a partition were not found; `gone`: Kafka has deleted them. */
	void (*gap)(void *arg, int32_t partition, int64_t first, int64_t last, bool gone);
	void (*progress)(void *arg, int64_t done, int64_t total); /* for one partition */
	/* Called once at the end, with lines about the parts of the range that the log does not
	 * have, or that are behind an open transaction. */
	void (*note)(void *arg, const char *lines);
	void *arg;
};

/* 0, also when gaps were found. FAULT_CHECK: the topic or partition does not exist, or `to` is -1
 * and inboxd has not read the partition, or every partition ends before `from`. FAULT_KAFKA,
 * FAULT_DATABASE. */
int ingest_verify(
	const struct verify_request *request, struct verify_counts *counts, struct err *err);

#endif
