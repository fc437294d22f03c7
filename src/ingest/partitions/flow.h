/*
 * Which partitions may flow. A reason to stop pauses all of them; flow_step() resumes them when none is left. The ingest
 * thread.
 */
#ifndef INGEST_PARTITIONS_FLOW_H
#define INGEST_PARTITIONS_FLOW_H

#include "ingest/state.h"

/* Adds a reason to stop, which pauses all partitions; takes it away. */
void flow_stop_all(struct ingest *ingest, enum stop reason);
void flow_go_on(struct ingest *ingest, enum stop reason);
/* True when the instance ends: it is fenced, or a fault was reported. */
bool flow_is_halted(const struct ingest *ingest);
/* End consuming: the instance is fenced, or a fault occurred that no retry can cure. The
 * supervision receives the reason. */
void ingest_fenced(struct ingest *ingest);
/* A consumer has another name: the instance ends in order, and stores nothing more. */
void ingest_renamed(struct ingest *ingest);
/* The client of Kafka has ended: halts, and another instance run begins, which joins the group after a pause. */
void ingest_rejoins(struct ingest *ingest);
void ingest_fault(struct ingest *ingest, const struct err *err);
/* Pauses one partition and sets its state. */
void flow_stop(struct ingest *ingest, struct partition *partition, enum partition_state state);
/* Pauses one partition. */
void flow_pause(struct ingest *ingest, struct partition *partition);

#endif
