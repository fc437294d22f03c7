/*
 * In the group or out of it: a member whose lease may be over without its knowing, or that lacks a handler
 * which another member has, leaves the partitions to those that can work on them (rules R6, R16). The
 * ingest thread.
 */
#ifndef INGEST_GROUP_MEMBERSHIP_H
#define INGEST_GROUP_MEMBERSHIP_H

#include "ingest/state.h"

/* Joins or leaves the group as the heartbeat reports; logs a rebalance that takes long. Does not wait for Kafka. */
void group_membership_step(struct ingest *ingest);

#endif
