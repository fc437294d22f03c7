/*
 * The configuration of librdkafka: what the user set under `kafka`, unchanged, between what inboxd
 * would like and what it must have, for the consumer and for the producer of the dead topic. Any thread.
 */
#ifndef INGEST_CONSUMER_CONF_H
#define INGEST_CONSUMER_CONF_H

#include <librdkafka/rdkafka.h>

#include "base/err.h"
#include "config/config.h"

/* FAULT_CONFIG naming the key, with librdkafka's words. The caller destroys it, or gives it to
 * rd_kafka_new(). */
int consumer_conf_new(rd_kafka_conf_t **out, const struct config *config, struct err *err);

/* The same for the producer: connection and security are the user's, waits and guarantees inboxd's. */
int producer_conf_new(rd_kafka_conf_t **out, const struct config *config, struct err *err);

/* The user's value of a setting, the last one when written twice; `fallback` when there is none. */
const char *consumer_conf_value(
	const struct config *config, const char *name, const char *fallback);

#endif
