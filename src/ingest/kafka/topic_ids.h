/*
 * The ids that Kafka gives to topics (KIP-516). A topic that was deleted and created again has another one. librdkafka
 * has the request from 2.3 on. inboxd is also built with earlier headers; whether the loaded library has it is known
 * only at run time. Any thread may ask.
 */
#ifndef INGEST_KAFKA_TOPIC_IDS_H
#define INGEST_KAFKA_TOPIC_IDS_H

#include <stddef.h>

#include "base/err.h"
#include "model/identity/topic_log.h"

struct rd_kafka_s; /* of consumer_handle() or probe_handle() */

struct topic_id {
	const char *topic;       /* borrowed */
	char id[TOPIC_ID_BYTES]; /* "" = the library, the cluster or this topic has none */
};

struct topic_ids_query {
	int32_t broker; /* the broker that is asked; -1 = the controller */
	int timeout_ms;
};

/* Fills the ids of the topics. No topic may occur twice. Waits at most timeout_ms. FAULT_KAFKA: the broker has not answered, and every
 * id is "". */
int topic_ids_ask(struct rd_kafka_s *kafka, struct topic_ids_query query, struct topic_id *items,
	size_t count, struct err *err);

#endif
