/*
 * Implements partition_list.h.
 */
#include "ingest/kafka/partition_list.h"

#include <string.h>

rd_kafka_topic_partition_list_t *partition_list_of(
	const struct partition_offset *items, size_t count)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);

	for (size_t i = 0; i < count; i++)
		rd_kafka_topic_partition_list_add(list, items[i].topic, items[i].partition)
			->offset = items[i].offset;
	return list;
}

struct partition_offset partition_list_item(const rd_kafka_topic_partition_t *item)
{
	return (struct partition_offset){
		.topic = item->topic,
		.partition = item->partition,
		.offset = item->offset,
		.error = item->err == RD_KAFKA_RESP_ERR_NO_ERROR ? NULL
								 : rd_kafka_err2str(item->err),
	};
}

void partition_list_answer(
	const rd_kafka_topic_partition_list_t *list, struct partition_offset *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const rd_kafka_topic_partition_t *answer =
			i < (size_t)list->cnt ? &list->elems[i] : NULL;

		if (answer == NULL || answer->partition != items[i].partition ||
			strcmp(answer->topic, items[i].topic) != 0)
			answer = rd_kafka_topic_partition_list_find(
				list, items[i].topic, items[i].partition);
		items[i].offset = answer == NULL ? -1 : answer->offset;
		items[i].error = answer == NULL ? "no answer" : partition_list_item(answer).error;
	}
}
