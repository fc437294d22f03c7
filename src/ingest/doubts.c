#include "ingest/doubts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACILITY   "BROKERUA"
#define REASON     "]: broker unavailable: fetch: "
#define TOPIC_MOST 249 /* bytes of a topic's name in Kafka */

void doubts_init(struct doubts *doubts)
{
	(void)pthread_mutex_init(&doubts->lock, NULL);
	doubts->list = rd_kafka_topic_partition_list_new(0);
	atomic_init(&doubts->any, false);
}

void doubts_fini(struct doubts *doubts)
{
	if (doubts->list == NULL)
		return;
	rd_kafka_topic_partition_list_destroy(doubts->list);
	(void)pthread_mutex_destroy(&doubts->lock);
}

static void add(struct doubts *doubts, const char *topic, int32_t partition)
{
	(void)pthread_mutex_lock(&doubts->lock);
	if (rd_kafka_topic_partition_list_find(doubts->list, topic, partition) == NULL)
		(void)rd_kafka_topic_partition_list_add(doubts->list, topic, partition);
	atomic_store_explicit(&doubts->any, true, memory_order_release);
	(void)pthread_mutex_unlock(&doubts->lock);
}

/* "[thrd:…]: TOPIC [NUMBER]: broker unavailable: fetch: …" */
void doubts_hear(struct doubts *doubts, const char *facility, const char *text)
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
	end = number - 2; /* the space between both */
	name = end;
	while (name > text && name[-1] != ' ')
		name--;
	if (name == end || end - name > TOPIC_MOST)
		return;
	(void)snprintf(topic, sizeof(topic), "%.*s", (int)(end - name), name);
	add(doubts, topic, (int32_t)strtol(number, NULL, 10));
}

rd_kafka_topic_partition_list_t *doubts_take(struct doubts *doubts)
{
	rd_kafka_topic_partition_list_t *taken;

	if (!atomic_load_explicit(&doubts->any, memory_order_acquire))
		return NULL;
	(void)pthread_mutex_lock(&doubts->lock);
	taken = doubts->list;
	doubts->list = rd_kafka_topic_partition_list_new(0);
	atomic_store_explicit(&doubts->any, false, memory_order_release);
	(void)pthread_mutex_unlock(&doubts->lock);
	return taken;
}
