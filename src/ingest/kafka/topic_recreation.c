/*
 * Implements topic_recreation.h. librdkafka retries a failed fetch without an event, an error or a statistic; it
 * reports one only in a debug line of the form "[thrd:…]: TOPIC [NUMBER]: broker unavailable: fetch: …" (ADR 26). A
 * line of another form is ignored.
 */
#include "ingest/kafka/topic_recreation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACILITY   "BROKERUA"
#define REASON     "]: broker unavailable: fetch: "
#define TOPIC_MOST 249 /* maximum length of a topic name in Kafka */

void topic_recreation_init(struct topic_recreation *recreation)
{
	(void)pthread_mutex_init(&recreation->lock, NULL);
	recreation->list = rd_kafka_topic_partition_list_new(0);
	atomic_init(&recreation->any, false);
}

void topic_recreation_fini(struct topic_recreation *recreation)
{
	if (recreation->list == NULL)
		return;
	rd_kafka_topic_partition_list_destroy(recreation->list);
	(void)pthread_mutex_destroy(&recreation->lock);
}

static void add(struct topic_recreation *recreation, const char *topic, int32_t partition)
{
	(void)pthread_mutex_lock(&recreation->lock);
	if (rd_kafka_topic_partition_list_find(recreation->list, topic, partition) == NULL)
		(void)rd_kafka_topic_partition_list_add(recreation->list, topic, partition);
	atomic_store_explicit(&recreation->any, true, memory_order_release);
	(void)pthread_mutex_unlock(&recreation->lock);
}

/* Parses the line from its end, because the text before the topic name varies. */
void topic_recreation_note(
	struct topic_recreation *recreation, const char *facility, const char *text)
{
	const char *end = strcmp(facility, FACILITY) == 0 ? strstr(text, REASON) : NULL;
	const char *number = end;
	const char *name;
	char topic[TOPIC_MOST + 1];

	if (end == NULL)
		return;
	while (number > text && number[-1] != '[')
		number--;
	if (number - text < 2)
		return;
	end = number - 2; /* skips the space between name and number */
	name = end;
	while (name > text && name[-1] != ' ')
		name--;
	if (name == end || end - name > TOPIC_MOST)
		return;
	(void)snprintf(topic, sizeof(topic), "%.*s", (int)(end - name), name);
	add(recreation, topic, (int32_t)strtol(number, NULL, 10));
}

rd_kafka_topic_partition_list_t *topic_recreation_take(struct topic_recreation *recreation)
{
	rd_kafka_topic_partition_list_t *taken;

	if (!atomic_load_explicit(&recreation->any, memory_order_acquire))
		return NULL;
	(void)pthread_mutex_lock(&recreation->lock);
	taken = recreation->list;
	recreation->list = rd_kafka_topic_partition_list_new(0);
	atomic_store_explicit(&recreation->any, false, memory_order_release);
	(void)pthread_mutex_unlock(&recreation->lock);
	return taken;
}
