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
 *
 * Only files of this folder know librdkafka. The headers that others include name its types as opaque structs.
 */
#ifndef INGEST_KAFKA_CONSUMER_H
#define INGEST_KAFKA_CONSUMER_H

#include <stdbool.h>

#include "base/err.h"
#include "config/config.h"
#include "ingest/kafka/partition_offset.h"
#include "model/message/record.h"
#include "report/metrics.h"

struct consumer;

#define CONSUMER_PAUSE_MS 10000

enum broker_fault_kind { BROKER_LOST, BROKER_REFUSES, BROKER_TLS, BROKERS_ALL_DOWN };

struct broker_fault {
	enum broker_fault_kind kind;
	const char *code;  /* librdkafka's name of it */
	const char *error; /* borrowed */
	const char *next;  /* static */
};

/* What is at an offset could not be fetched, and librdkafka fetches it again. */
struct fetch_fault {
	const char *topic; /* borrowed; NULL = the response of a broker was refused as a whole */
	int32_t partition;
	const char *code;  /* librdkafka's name of it */
	const char *error; /* borrowed */
};

/* librdkafka cannot continue. */
struct client_end {
	const char *code;    /* librdkafka's name of it */
	const char *error;   /* borrowed */
	const char *meaning; /* static: what to do */
	bool id_in_use;      /* another member of the group has, or had, the group.instance.id */
};

/* Called from consumer_poll() and consumer_close(). The items are borrowed. */
struct consumer_events {
	void (*assigned)(void *arg, const struct partition_offset *items, size_t count);
	/* before the partitions are given up; `lost`: the group has already taken them away */
	void (*revoked)(void *arg, const struct partition_offset *items, size_t count, bool lost);
	/* An asynchronous commit failed for this partition. */
	void (*not_committed)(void *arg, const struct partition_offset *item);
	/* The receiver logs it. */
	void (*fetch_failed)(void *arg, const struct fetch_fault *fault);
	/* A broker failed, or librdkafka reports that none is left. The receiver logs it. */
	void (*broker_failed)(void *arg, const struct broker_fault *fault);
	/* There was no memory for an event. */
	void (*fatal)(void *arg, const struct err *err);
	/* A new consumer may join the group after CONSUMER_PAUSE_MS. Called once. The receiver logs it. */
	void (*ended)(void *arg, const struct client_end *end);
	void *arg;
};

/* Checks the configuration; FAULT_CONFIG with librdkafka's text. Connects in the background. Copies
 * `events`. */
int consumer_new(struct consumer **out, const struct config *config,
	const struct consumer_events *events, struct metrics *metrics, struct err *err);
/* Closes the consumer if that has not happened yet. May hang (rule R20). */
void consumer_free(struct consumer *consumer);
/* Leaves the group and calls `revoked` for the assigned partitions. May hang (rule R20). */
void consumer_close(struct consumer *consumer);

int consumer_subscribe(struct consumer *consumer, const struct strings *topics, struct err *err);
/* Leaves the group; a later poll calls `revoked`. */
void consumer_unsubscribe(struct consumer *consumer);
/* Logs that no broker delays the consumer any more. */
void consumer_look_at_throttle(struct consumer *consumer);
/* Reads the files of user name and password again and uses changed values. */
void consumer_refresh_credentials(struct consumer *consumer, const struct config *config);
/* For the requests of broker_query.h. */
struct rd_kafka_s *consumer_handle(const struct consumer *consumer);
const char *consumer_group(const struct consumer *consumer);

/*
 * Waits for the next record. CONSUMER_RECORD: `out` is borrowed until the next call.
 * CONSUMER_PARTITION_END: every record of the partition below `out->offset` was returned; only
 * topic, partition and offset are set. Other errors are logged and count as CONSUMER_NOTHING.
 * FAULT_MEMORY.
 */
enum { CONSUMER_NOTHING, CONSUMER_RECORD, CONSUMER_PARTITION_END };
int consumer_poll(
	struct consumer *consumer, int timeout_ms, const struct record **out, struct err *err);
/* A number that changes when librdkafka moves to another offset by itself. Inexpensive. */
unsigned consumer_resets(struct consumer *consumer);
/* Calls `visit` for the partitions whose fetch has failed since the last call (see
 * topic_recreation.h). Inexpensive when there is none. */
void consumer_failed_fetches(struct consumer *consumer,
	void (*visit)(void *arg, const char *topic, int32_t partition), void *arg);

/* Stops the flow and drops records that were fetched but not polled. */
void consumer_pause(struct consumer *consumer, const struct partition_offset *items, size_t count);
/* Lets partitions flow from the given offsets. `error` of an item is set when its partition is
 * still paused; try again later. Each of its two seeks waits at most two seconds. */
void consumer_flow(struct consumer *consumer, struct partition_offset *items, size_t count);

/* Sends the offsets without waiting for the answer. */
void consumer_commit(struct consumer *consumer, const struct partition_offset *items, size_t count);

#endif
