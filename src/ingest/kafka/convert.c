/*
 * Implements convert.h.
 */
#include "ingest/kafka/convert.h"

#include <stdlib.h>
#include <string.h>

/* --- Lists of partitions ----------------------------------------------------------------------- */

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

const struct rd_kafka_metadata_topic *metadata_topic(
	const struct rd_kafka_metadata *metadata, const char *name)
{
	for (int i = 0; i < metadata->topic_cnt; i++) {
		if (strcmp(metadata->topics[i].topic, name) == 0)
			return &metadata->topics[i];
	}
	return NULL;
}

/* --- Records ----------------------------------------------------------------------------------- */

/* librdkafka parses the headers at the first request, which fails only for a malformed record. Such a record has no
 * headers. */
static int borrow_headers(struct fetched_record *fetched, size_t *count, struct err *err)
{
	rd_kafka_headers_t *headers = NULL;
	size_t most;

	*count = 0;
	if (rd_kafka_message_headers(fetched->message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	most = rd_kafka_header_cnt(headers);
	if (most > fetched->header_room) {
		struct header *wider = realloc(fetched->headers, most * sizeof(*wider));

		if (wider == NULL)
			return err_memory(err);
		fetched->headers = wider;
		fetched->header_room = most;
	}
	while (*count < most) {
		const char *name = NULL;
		const void *value = NULL;
		size_t size = 0;

		if (rd_kafka_header_get_all(headers, *count, &name, &value, &size) !=
			RD_KAFKA_RESP_ERR_NO_ERROR)
			break;
		fetched->headers[(*count)++] = (struct header){ name, { value, size } };
	}
	return 0;
}

int fetched_record_set(struct fetched_record *fetched, rd_kafka_message_t *message, struct err *err)
{
	rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
	int64_t timestamp;
	size_t header_count = 0;

	fetched_record_clear(fetched);
	fetched->message = message;
	fetched->record = (struct record){
		.topic = rd_kafka_topic_name(message->rkt),
		.partition = message->partition,
		.offset = message->offset,
		.timestamp_ms = -1,
	};
	if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) /* payload and headers mean other things */
		return 0;
	if (borrow_headers(fetched, &header_count, err) < 0) {
		fetched_record_clear(fetched);
		return FAULT_MEMORY;
	}
	timestamp = rd_kafka_message_timestamp(message, &type);
	if (type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && timestamp >= 0)
		fetched->record.timestamp_ms = timestamp;
	fetched->record.key = (struct bytes){ message->key, message->key_len };
	fetched->record.payload = (struct bytes){ message->payload, message->len };
	fetched->record.headers = fetched->headers;
	fetched->record.header_count = header_count;
	return 0;
}

void fetched_record_clear(struct fetched_record *fetched)
{
	if (fetched->message != NULL)
		rd_kafka_message_destroy(fetched->message);
	fetched->message = NULL;
}

void fetched_record_fini(struct fetched_record *fetched)
{
	fetched_record_clear(fetched);
	free(fetched->headers);
	fetched->headers = NULL;
}
