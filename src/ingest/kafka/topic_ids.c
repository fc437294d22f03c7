/*
 * Implements topic_ids.h. Earlier versions of librdkafka have no function for the request.
 */
#include "ingest/kafka/topic_ids.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/threads/progress.h"
#include "ingest/kafka/client.h"

#define NO_ID "AAAAAAAAAAAAAAAAAAAAAA" /* sent by a cluster without topic ids */

/* The functions, with the types that earlier headers do not have as void. */
struct functions {
	void *(*of_topic_names)(const char **names, size_t count);
	void (*collection_destroy)(void *topics);
	void (*describe)(rd_kafka_t *kafka, const void *topics,
		const rd_kafka_AdminOptions_t *options, rd_kafka_queue_t *queue);
	const void *(*result_of)(rd_kafka_event_t *event);
	const void **(*descriptions)(const void *result, size_t *count);
	const char *(*name)(const void *description);
	const void *(*id)(const void *description);
	const char *(*base64)(const void *id);
};

/* A function pointer is set through a pointer to void *, as POSIX recommends for dlsym(). */
static bool find_functions(struct functions *out)
{
	const struct {
		void *at;
		void *found;
	} all[] = {
		{ &out->of_topic_names, KAFKA_SINCE_2_3(rd_kafka_TopicCollection_of_topic_names) },
		{ &out->collection_destroy, KAFKA_SINCE_2_3(rd_kafka_TopicCollection_destroy) },
		{ &out->describe, KAFKA_SINCE_2_3(rd_kafka_DescribeTopics) },
		{ &out->result_of, KAFKA_SINCE_2_3(rd_kafka_event_DescribeTopics_result) },
		{ &out->descriptions, KAFKA_SINCE_2_3(rd_kafka_DescribeTopics_result_topics) },
		{ &out->name, KAFKA_SINCE_2_3(rd_kafka_TopicDescription_name) },
		{ &out->id, KAFKA_SINCE_2_3(rd_kafka_TopicDescription_topic_id) },
		{ &out->base64, KAFKA_SINCE_2_3(rd_kafka_Uuid_base64str) },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].found == NULL)
			return false;
		*(void **)all[i].at = all[i].found;
	}
	return true;
}

static void note(struct topic_id *items, size_t count, const char *topic, const char *id)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(items[i].topic, topic) == 0 && id != NULL && strcmp(id, NO_ID) != 0)
			(void)snprintf(items[i].id, sizeof(items[i].id), "%s", id);
	}
}

/* A topic that does not exist has no id, or one of zeros. */
static void note_answer(const struct functions *functions, rd_kafka_event_t *event,
	struct topic_id *items, size_t count)
{
	const void *result = functions->result_of(event);
	size_t found = 0;
	const void **topics = result == NULL ? NULL : functions->descriptions(result, &found);

	for (size_t i = 0; i < found; i++) {
		const void *id = functions->id(topics[i]);

		note(items, count, functions->name(topics[i]),
			id == NULL ? NULL : functions->base64(id));
	}
}

static void describe(rd_kafka_t *kafka, const struct functions *functions,
	struct topic_ids_query query, const void *topics, rd_kafka_queue_t *queue)
{
	rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(kafka, RD_KAFKA_ADMIN_OP_ANY);

	(void)rd_kafka_AdminOptions_set_request_timeout(options, query.timeout_ms, NULL, 0);
	if (query.broker >= 0)
		(void)rd_kafka_AdminOptions_set_broker(options, query.broker, NULL, 0);
	functions->describe(kafka, topics, options, queue);
	rd_kafka_AdminOptions_destroy(options);
}

/* The queue is abandoned after the timeout; librdkafka then drops the answer. */
int topic_ids_ask(rd_kafka_t *kafka, struct topic_ids_query query, struct topic_id *items,
	size_t count, struct err *err)
{
	CLEANUP(freep) const char **names = calloc(count + 1, sizeof(*names));
	struct functions functions;
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__TIMED_OUT;
	rd_kafka_queue_t *queue;
	rd_kafka_event_t *event;
	void *topics;

	for (size_t i = 0; i < count; i++)
		items[i].id[0] = '\0';
	if (names == NULL)
		return err_memory(err);
	if (count == 0 || !find_functions(&functions))
		return 0;
	for (size_t i = 0; i < count; i++)
		names[i] = items[i].topic;
	topics = functions.of_topic_names(names, count);
	queue = rd_kafka_queue_new(kafka);
	describe(kafka, &functions, query, topics, queue);
	functions.collection_destroy(topics);
	progress_note(query.timeout_ms);
	event = rd_kafka_queue_poll(queue, query.timeout_ms);
	if (event != NULL) {
		code = rd_kafka_event_error(event);
		if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
			note_answer(&functions, event, items, count);
		rd_kafka_event_destroy(event);
	}
	rd_kafka_queue_destroy(queue);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE)
		return 0;
	return err_set(err, FAULT_KAFKA, "the ids of the topics could not be read: %s",
		rd_kafka_err2str(code));
}
