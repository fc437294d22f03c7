/*
 * Decides whether this instance is a member of the consumer group. It leaves when its lease may
 * have expired, or when it lacks a handler that another member has, so that partitions go to
 * members that can process them (rules R6, R16). The ingest thread.
 */
#ifndef INGEST_PARTITIONS_GROUP_MEMBERSHIP_H
#define INGEST_PARTITIONS_GROUP_MEMBERSHIP_H

#include "ingest/state.h"

/* Joins or leaves the group according to the state of the heartbeat, and logs a rebalance that
 * takes long. Does not wait for Kafka. */
void group_membership_step(struct ingest *ingest);

#endif
