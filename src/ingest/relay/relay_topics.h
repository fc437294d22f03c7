/*
 * The topics to which the relay has sent events lately: whether they can be used, and which records they accept. The
 * number of topics has no limit, so those that were not used for some minutes are forgotten. One thread.
 */
#ifndef INGEST_RELAY_RELAY_TOPICS_H
#define INGEST_RELAY_RELAY_TOPICS_H

#include <stddef.h>

#include "ingest/kafka/producer.h"

struct relay_topic {
	char *name;
	uint64_t hash;
	struct topic_rules_found rules;
	int64_t checked_ms; /* 0 = never, or a record has failed since */
	char why[384];      /* why it cannot be used, or took no record */
	size_t stalled;     /* number of its events without an answer, see stalls.h */
	/* of the group that is being sent, see flight.c */
	int64_t group;
	int64_t group_count;
	int64_t group_bytes;
	bool group_full;
};

struct relay_topics {
	struct relay_topic **items; /* by hash */
	size_t count;
	size_t room;
	size_t tidy_at; /* number of entries */
};

void relay_topics_fini(struct relay_topics *topics);
/* The entry of this topic; made if it does not exist. Its address stays. NULL: no memory. */
struct relay_topic *relay_topics_get(struct relay_topics *topics, const char *name, uint64_t hash);
/* If many topics were added: frees those about which the brokers would be asked again anyway. True: there were some. No
 * entry may be in use. */
bool relay_topics_tidy(struct relay_topics *topics);
/* Asks the brokers about the topic, unless they were asked lately. 0: it can be used. RELAY_TOPIC_HELD: it cannot;
 * `topic->why` says why. FAULT_KAFKA: no broker answered. */
enum { RELAY_TOPIC_HELD = 1 };
int relay_topic_check(struct relay_topic *topic, struct producer *producer, struct err *err);
/* After the brokers have refused this host's time: this time, and the limits of the topic that are known. Borrowed from the
 * entry. */
const char *relay_topic_explain_time(struct relay_topic *topic);
/* An event breaks a rule of the topic, which may have changed: the brokers are asked again after some seconds. */
void relay_topic_check_soon(struct relay_topic *topic);

#endif
