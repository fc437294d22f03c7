/*
 * Proves what became of a range of records: reads them again with a consumer that joins no group and commits
 * nothing, identifies each by the rules of the configuration, and asks the table. Any thread; blocks.
 */
#ifndef INGEST_VERIFY_H
#define INGEST_VERIFY_H

#include <stdint.h>

#include "config/config.h"
#include "store/db.h"

struct verify_counts {
	int64_t records;
	int64_t stored;
	int64_t duplicates;
	int64_t conflicts;
	int64_t rejected;
	int64_t skipped; /* their type is not accepted */
	int64_t missing; /* no trace of them */
};

struct verify_request {
	const struct config *config;
	struct db *db; /* open */
	const char *topic;
	int64_t partition; /* -1: all */
	int64_t from;      /* -1: the first that Kafka has */
	int64_t to;        /* behind the last; -1: as far as the sidecars have read */
	/* Offsets first to last of a partition have no trace; `gone`: Kafka does not have them any more. */
	void (*gap)(void *arg, int32_t partition, int64_t first, int64_t last, bool gone);
	void (*progress)(void *arg, int64_t done, int64_t total); /* of one partition */
	/* At the end, once: the lines about what was asked for and is not in the log. */
	void (*note)(void *arg, const char *lines);
	void *arg;
};

/* 0, also with gaps. FAULT_CHECK: there is no such topic or partition, or `to` is -1 and no sidecar has read it,
 * or every partition ends before `from`.
 * FAULT_KAFKA, FAULT_DATABASE. */
int ingest_verify(
	const struct verify_request *request, struct verify_counts *counts, struct err *err);

#endif
