/*
 * Sends one batch of dead messages to the dead topic, waits for the brokers' confirmations, and
 * classifies the result of each record. It knows the rows and the producer, but neither the table
 * nor the schedule. Blocks for up to half a minute. One thread.
 */
#ifndef INGEST_DEAD_TOPIC_DEAD_BATCH_H
#define INGEST_DEAD_TOPIC_DEAD_BATCH_H

#include <stdatomic.h>

#include "ingest/dead_topic/dead_record.h"

#define DEAD_BATCH_MOST 200 /* the maximum number of records in a batch */

struct dead_batch {
	struct producer *producer;
	const atomic_bool *stop;          /* when it is true, the waits are short */
	struct dead_record_source source; /* dead_batch_send() sets `row` */
	int count;                        /* number of rows, at most DEAD_BATCH_MOST */
	/* Results of dead_batch_send(): */
	struct produce_result results[DEAD_BATCH_MOST];
	bool cut[DEAD_BATCH_MOST]; /* the record was produced without its value */
	/* the topic refused the record together with others, and there was no time to send it
	 * alone; the next batch sends it again */
	bool postponed[DEAD_BATCH_MOST];
};

/* Sends every row. A record that the topic refused as part of a batch is sent again alone, and if
 * necessary without its value. False: some results are unknown (PRODUCE_OPEN). The producer must
 * then be destroyed before `batch`, because it would write to `results` later. */
bool dead_batch_send(struct dead_batch *batch);

#endif
