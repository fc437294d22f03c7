/*
 * Decides whether a broker is reachable, for /readyz.
 *
 * librdkafka reports ALL_BROKERS_DOWN when every broker to which it had connected has failed.
 * Brokers to which it never had a reason to connect do not count. Received records prove nothing
 * either, since they may have been fetched earlier. Therefore a failure only raises a doubt, and a
 * request that any broker can answer resolves it. The ingest thread.
 */
#ifndef INGEST_BROKERS_H
#define INGEST_BROKERS_H

#include <stdbool.h>

struct ingest;

/* A broker failed; `all`: librdkafka reports that none is left. A callback of struct
 * consumer_events. */
void brokers_failed(void *arg, bool all);
/* Sends a request when there is a doubt and waits half a second for the answer. After the second
 * request without an answer no broker is reachable; after that each call checks whether one is
 * reachable again. */
void brokers_check(struct ingest *ingest);

#endif
