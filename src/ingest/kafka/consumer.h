/*
 * The Kafka consumer: librdkafka with the few operations that ingest needs. It knows nothing about
 * tables or batches.
 *
 * Promises: offsets are committed only on request. A partition is paused from its assignment until
 * consumer_flow(). Whenever librdkafka moves to another offset by itself, consumer_resets() has
 * changed before the first record from there arrives.
 *
 * All calls and events belong to the thread that polls. Only log callbacks run on threads of
 * librdkafka.
 */
#ifndef INGEST_KAFKA_CONSUMER_H
#define INGEST_KAFKA_CONSUMER_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"
#include "ingest/partitions/start_offset_policy.h"

struct consumer;

/* Called from consumer_poll() and consumer_close(). `list` is borrowed. */
struct consumer_events {
	void (*assigned)(void *arg, const rd_kafka_topic_partition_list_t *list);
	/* before the partitions are given up; `lost`: the group has already taken them away */
	void (*revoked)(void *arg, const rd_kafka_topic_partition_list_t *list, bool lost);
	/* An asynchronous commit failed for this partition. */
	void (*not_committed)(void *arg, const rd_kafka_topic_partition_t *place);
	/* A broker failed; `all`: librdkafka reports that none is left (see brokers.h). */
	void (*broker_failed)(void *arg, bool all);
	/* librdkafka cannot continue. */
	void (*fatal)(void *arg, const struct err *err);
	void *arg;
};

/* Checks the configuration; FAULT_CONFIG with librdkafka's text. Connects in the background. Keeps
 * `events`. */
int consumer_new(struct consumer **out, const struct config *config,
	const struct consumer_events *events, struct err *err);
/* Closes the consumer if that has not happened yet. May hang (rule R20). */
void consumer_free(struct consumer *consumer);
/* Leaves the group and calls `revoked` for the assigned partitions. May hang (rule R20). */
void consumer_close(struct consumer *consumer);

int consumer_subscribe(struct consumer *consumer, const struct strings *topics, struct err *err);
/* Leaves the group; a later poll calls `revoked`. */
void consumer_unsubscribe(struct consumer *consumer);
/* Reads the files of user name and password again and uses changed values. */
void consumer_refresh_credentials(struct consumer *consumer, const struct config *config);
/* For the requests of broker_query.h. */
rd_kafka_t *consumer_handle(const struct consumer *consumer);
enum reset_policy consumer_reset_policy(const struct consumer *consumer);
const char *consumer_group(const struct consumer *consumer);

/* The next record, which the caller destroys, or NULL. `err` of the record is 0 or PARTITION_EOF;
 * the latter means that every record below its offset was returned. Other errors are logged and not
 * returned. */
rd_kafka_message_t *consumer_poll(struct consumer *consumer, int timeout_ms);
/* A number that changes when librdkafka moves to another offset by itself. Inexpensive. */
unsigned consumer_resets(struct consumer *consumer);
/* The partitions whose fetch has failed since the last call (see topic_recreation.h); NULL = none. */
rd_kafka_topic_partition_list_t *consumer_doubted(struct consumer *consumer);

/* Stops the flow and drops records that were fetched but not polled. */
void consumer_pause(struct consumer *consumer, rd_kafka_topic_partition_list_t *list);
/* Lets partitions flow from the offsets in the list. `err` of an element is set when its partition
 * is still paused; try again later. Waits at most two seconds. */
void consumer_flow(struct consumer *consumer, rd_kafka_topic_partition_list_t *list);

/* Sends the offsets without waiting for the answer. */
void consumer_commit(struct consumer *consumer, const rd_kafka_topic_partition_list_t *list);
#endif
