/*
 * Produces dead messages to the Kafka topic retry.dead_topic. One thread, with its own connection
 * and producer.
 *
 * The table remains the authority: a message is dead when its row says so. It is produced
 * afterwards, at least once, in the order of death. One instance of the schema is elected by the
 * database and does it. A row is marked as produced only after the brokers have confirmed the
 * record (rule R21). Without topic or broker the messages stay in the table; nothing else is
 * delayed.
 */
#ifndef INGEST_DEAD_TOPIC_DEAD_TOPIC_H
#define INGEST_DEAD_TOPIC_DEAD_TOPIC_H

#include "config/config.h"
#include "report/metrics.h"

struct dead_topic;

/* Keeps everything; it must outlive the object. */
struct dead_topic_options {
	const struct config *config;
	struct metrics *metrics;
	int32_t instance;
};

int dead_topic_new(
	struct dead_topic **out, const struct dead_topic_options *options, struct err *err);
int dead_topic_start(struct dead_topic *dead, struct err *err);
/* Any thread. Uses another topic, or none, from now on. Keeps `config`. */
void dead_topic_reload(struct dead_topic *dead, const struct config *config);
/* Asks the thread to end. It confirms and records what it has just sent, within two seconds. */
void dead_topic_begin_stop(struct dead_topic *dead);
/* Waits for the end of the thread, a few seconds unless a library call hangs. */
void dead_topic_stop(struct dead_topic *dead);
void dead_topic_free(struct dead_topic *dead);

#endif
