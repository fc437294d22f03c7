/*
 * How much librdkafka fetches ahead, and that it goes on in time. The ingest thread.
 *
 * What is fetched ahead takes memory, and it need only last until the next answer of a broker. But before
 * 2.2 a thread of librdkafka that found the prefetch full looks again only after a second, or when anything
 * else happens on its broker's connection. So every megabyte something does: a question that nobody
 * waits for. From 2.2 on the pause is a setting (fetch.queue.backoff.ms).
 */
#ifndef INGEST_PREFETCH_H
#define INGEST_PREFETCH_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

#define PREFETCH_KIB 2048 /* queued.max.messages.kbytes */

struct prefetch {
	size_t taken; /* bytes of records since the last question */
};

/* Whether this librdkafka has the setting. */
bool prefetch_has_backoff(void);
/* A record left the queue. */
void prefetch_took(struct prefetch *prefetch, rd_kafka_t *kafka, const rd_kafka_message_t *record);

#endif
