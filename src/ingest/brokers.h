/*
 * Whether a broker can be reached, as /readyz tells it. librdkafka says that all brokers are down when each one it has
 * heard of was tried and failed: one that it had no reason to connect to yet is none of them. And what it hands over may
 * have been fetched before. So each failure is a doubt, and only the answer to a question of our own, which any broker
 * can give, ends it. The ingest thread.
 */
#ifndef INGEST_BROKERS_H
#define INGEST_BROKERS_H

#include <stdbool.h>

struct ingest;

/* One failed; `all`: none is left. Of struct consumer_events. */
void brokers_failed(void *arg, bool all);
/* Asks when there is a doubt, and waits half a second for the answer. The second question without one means that no
 * broker is there; every later one, whether one is there again. */
void brokers_look(struct ingest *ingest);

#endif
