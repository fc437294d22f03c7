/*
 * Limits how much librdkafka fetches ahead, and keeps the fetches going. The ingest thread.
 *
 * Fetched records use memory, and they only need to last until the next response of a broker. But
 * before version 2.2 a broker thread of librdkafka that finds the prefetch queue full checks again
 * only after one second, or when something else happens on its connection. Therefore inboxd sends a
 * request after every megabyte and ignores the answer. From 2.2 on the pause is a setting
 * (fetch.queue.backoff.ms), and no request is necessary.
 */
#ifndef INGEST_KAFKA_PREFETCH_H
#define INGEST_KAFKA_PREFETCH_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

#define PREFETCH_KIB 2048 /* queued.max.messages.kbytes */

struct prefetch {
	size_t taken; /* bytes of records since the last request */
};

/* True when this librdkafka has the setting fetch.queue.backoff.ms. */
bool prefetch_has_backoff(void);
/* Counts a record that left the queue; sends the request when enough have left. */
void prefetch_took(struct prefetch *prefetch, rd_kafka_t *kafka, const rd_kafka_message_t *record);

#endif
