/*
 * Updates what operators see of ingest: lag, paused partitions, whether a broker is reachable (for /readyz), and the
 * warning about the retention of a topic; also reads changed credentials. The ingest thread.
 */
#ifndef INGEST_OBSERVE_H
#define INGEST_OBSERVE_H

#include "ingest/state.h"

/* Once a round; most of it every two seconds. Waits for brokers at most 20 ms. */
void observe_step(struct ingest *ingest);
/* The next step is due at once: a broker was reachable just now, so that a doubt can be resolved. */
void observe_soon(struct ingest *ingest);
/* Event of the consumer: a fetch failed at an offset. */
void observe_fetch_failed(void *arg, const struct fetch_fault *fault);
/* Event of the consumer: a broker failed, or librdkafka reports that none is left. */
void observe_broker_failed(void *arg, const struct broker_fault *fault);

#endif
