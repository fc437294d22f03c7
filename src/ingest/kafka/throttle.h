/*
 * What a quota of the brokers does to a client: the brokers delay its requests, and no request fails. The metric has each
 * delay, the log the beginning and the end. The thread that polls the client.
 */
#ifndef INGEST_KAFKA_THROTTLE_H
#define INGEST_KAFKA_THROTTLE_H

#include "base/outage_log.h"
#include "report/metrics.h"

struct throttle {
	const char *client;     /* static */
	struct metric *seconds; /* histogram; NULL = of a client without records */
	struct outage_log log;
};

/* `metrics`: NULL = the client neither fetches nor produces. */
void throttle_init(struct throttle *throttle, const char *client, struct metrics *metrics);
/* A response said that the broker delays this client. After a delay librdkafka also reports a response without one: 0. */
void throttle_note(struct throttle *throttle, const char *broker, int delay_ms);
/* Logs the end when no response was delayed for a while. Inexpensive. */
void throttle_look(struct throttle *throttle);

#endif
