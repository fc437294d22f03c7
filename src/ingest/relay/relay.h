/*
 * The relay: publishes the events of the outbox to Kafka (docs/outbox.md). One thread, with its own connection and
 * producers.
 *
 * The table remains the authority: the state is in each row. One instance of the schema is elected by the database and
 * publishes. A row is deleted, or marked, only after the brokers have confirmed its record. Everything in memory, that
 * is how far it has read, the holes and the holds, is dropped after a fault and read again.
 */
#ifndef INGEST_RELAY_RELAY_H
#define INGEST_RELAY_RELAY_H

#include "config/config.h"
#include "report/metrics.h"
#include "report/supervision.h"

struct relay;

/* Keeps everything; it must outlive the object. */
struct relay_options {
	const struct config *config;
	struct metrics *metrics;
	struct supervision *supervision;
	int32_t instance;
};

int relay_new(struct relay **out, const struct relay_options *options, struct err *err);
int relay_start(struct relay *relay, struct err *err);
/* The next functions accept NULL: no relay is made when outbox.enabled is false. */
/* Any thread. Keeps `config`. */
void relay_reload(struct relay *relay, const struct config *config);
/* Any thread may poke it when there are new events: this ends a pause. NULL without a relay. */
struct wake *relay_wake(struct relay *relay);
/* Asks the thread to end. It records what the brokers confirm within two seconds. */
void relay_begin_stop(struct relay *relay);
/* Waits for the end of the thread, a few seconds unless a library call hangs. */
void relay_stop(struct relay *relay);
void relay_free(struct relay *relay);

#endif
