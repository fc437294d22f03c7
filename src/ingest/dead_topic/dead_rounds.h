/*
 * The state of the dead-topic thread, and its work with the table and the producer. dead_topic.c
 * decides when that work happens. All fields belong to that thread, except those marked otherwise.
 */
#ifndef INGEST_DEAD_TOPIC_DEAD_ROUNDS_H
#define INGEST_DEAD_TOPIC_DEAD_ROUNDS_H

#include "ingest/dead_topic/dead_batch.h"
#include "ingest/dead_topic/dead_topic.h"
#include "ingest/fault_log_limit.h"
#include "periodic/periodic.h"
#include "store/periodic/dead_messages.h"

#define LIST_MOST 9000

struct deaths {
	struct death items[LIST_MOST];
	size_t count;
};

struct dead_topic {
	struct dead_topic_options options;
	struct periodic periodic;
	struct producer *producer; /* NULL = none; it has seen the topic */
	int64_t used_ms;           /* time of the last use of the producer */
	bool elected;
	struct deaths sent; /* confirmed by the brokers, not yet recorded in the table */
	/* the pass has sent or refused everything up to this death; seq 0: nothing was refused */
	struct death position;
	int64_t refused_ms;          /* time of the first refusal in this pass */
	int64_t again_ms;            /* start of the next pass; 0 = this pass has not ended */
	struct dead_waiting waiting; /* counted in the table in the last round */
	struct dead_batch batch;
	struct fault_log_limit fault_limit;
	struct fault_log_limit refused_limit;
	struct fault_log_limit cut_limit;
	struct metric *waiting_gauge;
	struct metric *produced;
	struct metric *failures;
};

/* Creates a producer that has seen the topic. Blocks for a few seconds. */
int dead_rounds_ready(struct dead_topic *dead, struct err *err);
void dead_rounds_drop_producer(struct dead_topic *dead);
/* Starts a new pass from the first death, including the refused ones. */
void dead_rounds_restart(struct dead_topic *dead);
/* Records in the table what was produced. */
int dead_rounds_note(struct dead_topic *dead, struct err *err);
/* Sends the next messages and records those that were confirmed. DEAD_ROUND_EMPTY: nothing to send
 * now. A fault: some or all messages still have to be sent. */
enum { DEAD_ROUND_EMPTY = 1 };
int dead_rounds_send(struct dead_topic *dead, struct err *err);

#endif
