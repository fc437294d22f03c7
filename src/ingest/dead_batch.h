/*
 * A batch for the dead topic: sends it, waits for the brokers, and sorts what became of each record. Knows the rows and
 * the producer, no tables and no pauses. One thread.
 */
#ifndef INGEST_DEAD_BATCH_H
#define INGEST_DEAD_BATCH_H

#include <stdatomic.h>

#include "ingest/dead_record.h"

#define DEAD_BATCH_MOST      200 /* records of a batch */

/* The topic refused it together with others, and there was no time to send it alone: the next batch has it again. */
#define DEAD_BATCH_NOT_TRIED RD_KAFKA_RESP_ERR__RETRY

struct dead_batch {
	struct producer *producer;
	const atomic_bool *stop;          /* then the waits are short */
	struct dead_record_source source; /* `row` is used by dead_batch_send() */
	int count;                        /* rows, DEAD_BATCH_MOST at most */
	/* Filled by dead_batch_send(): */
	rd_kafka_resp_err_t results[DEAD_BATCH_MOST];
	bool cut[DEAD_BATCH_MOST]; /* went without its value */
};

/* Sends every row. A record that the topic refuses among others is sent again alone, and then without its value. False: not all
 * results are known (__IN_PROGRESS); the producer must be destroyed before `batch` is. */
bool dead_batch_send(struct dead_batch *batch);
/* The record is the reason, not the brokers: another one may do better. */
bool dead_batch_is_refused(rd_kafka_resp_err_t result);

#endif
