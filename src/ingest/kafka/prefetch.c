/*
 * Implements prefetch.h.
 */
#include "ingest/kafka/prefetch.h"

#define VERSION_WITH_BACKOFF 0x020200ff
#define ASK_EVERY            ((size_t)PREFETCH_KIB * 1024 / 2)
#define RECORD_COST          64 /* so that empty records count as well */

bool prefetch_has_backoff(void)
{
	return rd_kafka_version() >= VERSION_WITH_BACKOFF;
}

/* Sends one request to each broker that leads an assigned partition. With a timeout of 0 nobody
 * waits for the answers, and librdkafka drops them. */
static void wake_brokers(rd_kafka_t *kafka)
{
	rd_kafka_topic_partition_list_t *list = NULL;

	if (rd_kafka_assignment(kafka, &list) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	for (int i = 0; i < list->cnt; i++)
		list->elems[i].offset = RD_KAFKA_OFFSET_END;
	if (list->cnt > 0)
		(void)rd_kafka_offsets_for_times(kafka, list, 0);
	rd_kafka_topic_partition_list_destroy(list);
}

void prefetch_took(struct prefetch *prefetch, rd_kafka_t *kafka, const rd_kafka_message_t *record)
{
	prefetch->taken += record->len + record->key_len + RECORD_COST;
	if (prefetch->taken < ASK_EVERY || prefetch_has_backoff())
		return;
	prefetch->taken = 0;
	wake_brokers(kafka);
}
