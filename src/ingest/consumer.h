/*
 * The Kafka consumer: librdkafka wrapped in what ingest needs of it. Knows nothing of tables or
 * batches.
 *
 * Promises: offsets are committed only when told to; a partition is paused from the moment it is
 * assigned until consumer_flow(); whenever librdkafka moves to another place in the log by itself,
 * consumer_resets() has changed before the first record from there arrives.
 *
 * Every call and every event belongs to one thread, the one that polls; only logs come from
 * librdkafka's own.
 */
#ifndef INGEST_CONSUMER_H
#define INGEST_CONSUMER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"
#include "ingest/start_offset_policy.h"

struct consumer;

/* Called from within consumer_poll() and consumer_close(). `list` is borrowed. */
struct consumer_events {
	void (*assigned)(void *arg, const rd_kafka_topic_partition_list_t *list);
	/* Before the partitions are given up; `lost`: they were taken away already. */
	void (*revoked)(void *arg, const rd_kafka_topic_partition_list_t *list, bool lost);
	/* An asynchronous commit was refused for this partition. */
	void (*not_committed)(void *arg, const rd_kafka_topic_partition_t *place);
	/* One failed; `all`: none is left, says librdkafka, which does not always. */
	void (*broker_failed)(void *arg, bool all);
	/* librdkafka gives up for good. */
	void (*fatal)(void *arg, const struct err *err);
	void *arg;
};

/* Checks the configuration (FAULT_CONFIG in librdkafka's words); connects in the background. Keeps
 * `events`. */
int consumer_new(struct consumer **out, const struct config *config,
	const struct consumer_events *events, struct err *err);
/* Closes when that has not happened. May hang (rule R20). */
void consumer_free(struct consumer *consumer);
/* Leaves the group, with the `revoked` events that brings. May hang. */
void consumer_close(struct consumer *consumer);

int consumer_subscribe(struct consumer *consumer, const struct strings *topics, struct err *err);
/* Leaves the group; the `revoked` event comes with a later poll. */
void consumer_unsubscribe(struct consumer *consumer);
/* Takes over what has changed in the files of user and password. */
void consumer_refresh_credentials(struct consumer *consumer, const struct config *config);
/* For the questions of broker_query.h. */
rd_kafka_t *consumer_handle(const struct consumer *consumer);
enum reset_policy consumer_reset_policy(const struct consumer *consumer);
const char *consumer_group(const struct consumer *consumer);

/* The next record, to be destroyed by the caller, or NULL. `err` of a record is 0, or PARTITION_EOF: there
 * is nothing below its offset that has not been returned. Other errors are logged and not returned. */
rd_kafka_message_t *consumer_poll(struct consumer *consumer, int timeout_ms);
/* A number that changes when librdkafka starts at another offset by itself. Cheap. */
unsigned consumer_resets(struct consumer *consumer);
/* Partitions of which a fetch failed since the last call, see topic_recreation.h; NULL = none. */
rd_kafka_topic_partition_list_t *consumer_doubted(struct consumer *consumer);

/* Stops the flow; what was fetched and not polled is thrown away. */
void consumer_pause(struct consumer *consumer, rd_kafka_topic_partition_list_t *list);
/* Lets partitions flow from the offsets in the list; `err` of an element says that it still is
 * paused and has to be tried again. Waits up to two seconds. */
void consumer_flow(struct consumer *consumer, rd_kafka_topic_partition_list_t *list);

/* Sends and returns. */
void consumer_commit(struct consumer *consumer, const rd_kafka_topic_partition_list_t *list);
#endif
