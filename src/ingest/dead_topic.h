/*
 * The dead topic: one thread, with one connection and one producer while there is something to do, that produces what
 * died to retry.dead_topic. It works from the table, never instead of it, and never in anybody's way: a message is
 * dead when its row says so; the topic hears of it after that, at least once, in the order of dying.
 *
 * One sidecar of a schema does it at a time, elected by the database. What was produced is noted in its row only after
 * the brokers have confirmed it. Without topic or broker everything waits in the table.
 */
#ifndef INGEST_DEAD_TOPIC_H
#define INGEST_DEAD_TOPIC_H

#include "base/metrics.h"
#include "config/config.h"

struct dead_topic;

/* Everything is kept and must outlive it. */
struct dead_topic_options {
	const struct config *config;
	struct metrics *metrics;
	int32_t instance;
};

int dead_topic_new(
	struct dead_topic **out, const struct dead_topic_options *options, struct err *err);
int dead_topic_start(struct dead_topic *dead, struct err *err);
/* Any thread: another topic, or none, from now on. Keeps `config`. */
void dead_topic_reload(struct dead_topic *dead, const struct config *config);
/* Asks the thread to end: it confirms and notes what it has just sent, for two seconds at most. */
void dead_topic_begin_stop(struct dead_topic *dead);
/* Waits for its end, a few seconds at most unless a library call hangs. */
void dead_topic_stop(struct dead_topic *dead);
void dead_topic_free(struct dead_topic *dead);

#endif
