/*
 * In the group or out of it: a member whose lease may be over without its knowing, or that lacks a handler
 * which another member has, leaves the partitions to those that can work on them (rules R6, R16). The
 * ingest thread.
 */
#ifndef INGEST_GROUP_MEMBERSHIP_H
#define INGEST_GROUP_MEMBERSHIP_H

#include "ingest/state.h"

/* Joins or leaves as the keeper's news ask for, and tells of a group that lets wait; does not wait for Kafka. */
void group_membership_step(struct ingest *ingest);

#endif
