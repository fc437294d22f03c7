/*
 * Implements background_query.h.
 */
#include "ingest/kafka/background_query.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/faultpoint.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/convert.h"
#include "ingest/kafka/topic_ids.h"

#define TOPIC_IDS_MS 3000

/* The time limits of the attempts to read the leaders. The first ones are short, because the asked broker may be silent while others
 * answer. The last ones are for brokers and networks that are slow. Each is shorter than the time that a fenced
 * sidecar gives its threads to stop, because a call of librdkafka cannot be interrupted. */
static const int leaders_ms[] = { 500, 500, 500, 1000, 1500, 1500 };

DEFINE_CLEANUP(struct background_query *, background_query_free);

/* --- On the thread of a query ------------------------------------------------------------------- */

static void note_error(struct query_answer *answer, const struct partition_offset *item)
{
	if (answer->error == NULL)
		answer->error = item->error;
}

/* librdkafka sends the request to the broker that it has used last, also when it repeats the request. This broker may be
 * the silent one. So before the next attempt each leader gets a request whose answer is not awaited: then another broker is
 * the one that was used last. */
static void use_all_leaders(const struct background_query *query)
{
	rd_kafka_topic_partition_list_t *list = partition_list_of(query->partitions, query->count);

	broker_wake_leaders(query->request.kafka, list);
	rd_kafka_topic_partition_list_destroy(list);
}

static int ask_leaders(struct background_query *query, struct err *err)
{
	struct rd_kafka_s *kafka = query->request.kafka;
	int64_t next_ms = clock_now_ms() + leaders_ms[0];
	int r = broker_query_leaders(kafka, leaders_ms[0], query->partitions, query->count, err);

	for (size_t i = 1; i < sizeof(leaders_ms) / sizeof(leaders_ms[0]) && r < 0 &&
			   !thread_is_stopping(&query->thread);
		i++) {
		thread_pause(&query->thread, next_ms - clock_now_ms());
		use_all_leaders(query);
		next_ms = clock_now_ms() + leaders_ms[i];
		r = broker_query_leaders(
			kafka, leaders_ms[i], query->partitions, query->count, err);
	}
	for (size_t i = 0; r == 0 && i < query->count; i++) {
		query->answers[i].leader = (int32_t)query->partitions[i].offset;
		note_error(&query->answers[i], &query->partitions[i]);
	}
	return r;
}

static int ask_group(struct background_query *query, struct err *err)
{
	int r = broker_query_committed(query->request.kafka, query->partitions, query->count, err);

	for (size_t i = 0; r == 0 && i < query->count; i++) {
		query->answers[i].group = query->partitions[i].offset;
		note_error(&query->answers[i], &query->partitions[i]);
	}
	return r;
}

static int ask_log(struct background_query *query, int64_t which, struct err *err)
{
	const struct log_query of_log = { which, BROKER_ANSWER_MS };
	int r = broker_query_log(
		query->request.kafka, of_log, query->partitions, query->count, err);

	for (size_t i = 0; r == 0 && i < query->count; i++) {
		struct query_answer *answer = &query->answers[i];

		*(which == BROKER_LOG_BEGIN ? &answer->begin : &answer->end) =
			query->partitions[i].offset;
		note_error(answer, &query->partitions[i]);
		if (answer->error == NULL && query->partitions[i].offset < 0)
			answer->error = "no offset";
	}
	return r;
}

static int ask_begin(struct background_query *query, struct err *err)
{
	return ask_log(query, BROKER_LOG_BEGIN, err);
}

static int ask_end(struct background_query *query, struct err *err)
{
	int r = ask_log(query, BROKER_LOG_END, err);

	FAULT_POINT("after_log_ends");
	return r;
}

/* The partitions of a query have few topics, and those of a topic mostly follow each other. */
static size_t list_topics(const struct background_query *query, struct topic_id *ids)
{
	size_t count = 0;

	for (size_t i = 0; i < query->count; i++) {
		const char *topic = query->partitions[i].topic;
		size_t at = count;

		while (at > 0 && strcmp(ids[at - 1].topic, topic) != 0)
			at--;
		if (at == 0)
			ids[count++] = (struct topic_id){ .topic = topic };
	}
	return count;
}

/* `again`: these are the ids from after the requests for the ends of the logs. If a topic has the same id before and after
 * these requests, it was not created again between them, so the ends are those of its log. */
static void note_ids(
	struct background_query *query, const struct topic_id *ids, size_t count, bool again)
{
	for (size_t i = 0; i < query->count; i++) {
		struct query_answer *answer = &query->answers[i];
		size_t at = 0;

		while (at < count && strcmp(ids[at].topic, query->partitions[i].topic) != 0)
			at++;
		if (at == count)
			continue;
		answer->other_log =
			again && ids[at].id[0] != '\0' && strcmp(answer->topic_id, ids[at].id) != 0;
		memcpy(answer->topic_id, ids[at].id, sizeof(ids[at].id));
	}
}

/* The ids come from the leader, because the ends of the logs come from it as well. If the leader does not send the ids, the
 * query still gets its other answers. */
static int ask_topic_ids(struct background_query *query, bool again, struct err *err)
{
	const struct topic_ids_query of_leader = { query->request.leader, TOPIC_IDS_MS };
	CLEANUP(freep) struct topic_id *ids = calloc(query->count + 1, sizeof(*ids));
	size_t count = ids == NULL ? 0 : list_topics(query, ids);

	if (ids == NULL)
		return err_memory(err);
	if (query->ids_err.fault == 0)
		(void)topic_ids_ask(query->request.kafka, of_leader, ids, count, &query->ids_err);
	note_ids(query, ids, count, again);
	return 0;
}

static int ask_ids(struct background_query *query, struct err *err)
{
	return ask_topic_ids(query, false, err);
}

static int ask_ids_again(struct background_query *query, struct err *err)
{
	return ask_topic_ids(query, true, err);
}

static const struct {
	enum query_part part;
	int (*ask)(struct background_query *query, struct err *err);
} steps[] = {
	{ QUERY_LEADERS, ask_leaders },
	{ QUERY_GROUP, ask_group },
	{ QUERY_IDS, ask_ids },
	{ QUERY_BEGIN, ask_begin },
	{ QUERY_END, ask_end },
	{ QUERY_IDS, ask_ids_again },
};

static void run(void *arg)
{
	struct background_query *query = arg;
	int r = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && r == 0; i++) {
		if (thread_is_stopping(&query->thread))
			r = err_set(&query->err, FAULT_KAFKA, "this instance ends");
		else if ((query->request.parts & steps[i].part) != 0)
			r = steps[i].ask(query, &query->err);
	}
	for (size_t i = 0; i < query->count && r < 0; i++)
		query->answers[i].error = query->err.text;
	query->answered_ms = clock_now_ms();
}

/* --- On the thread that owns the list ----------------------------------------------------------- */

void background_queries_init(struct background_queries *queries)
{
	STAILQ_INIT(&queries->list);
}

void background_query_free(struct background_query *query)
{
	if (query == NULL)
		return;
	thread_join(&query->thread);
	thread_fini(&query->thread);
	free(query->partitions);
	free(query->answers);
	free(query);
}

static struct background_query *query_new(
	const struct query_request *request, struct partition_offset *partitions, size_t count)
{
	struct background_query *query = calloc(1, sizeof(*query));

	if (query == NULL) {
		free(partitions);
		return NULL;
	}
	query->thread = (struct thread)THREAD_INIT;
	query->request = *request;
	query->partitions = partitions;
	query->count = count;
	query->answers = calloc(count + 1, sizeof(*query->answers));
	for (size_t i = 0; i < count && query->answers != NULL; i++)
		query->answers[i] = (struct query_answer){ .leader = -1, .group = -1 };
	return query;
}

/* Its thread is watched, because the time limits of librdkafka may fail. */
int background_query_begin(struct background_queries *queries, const struct query_request *request,
	struct partition_offset *partitions, size_t count, struct err *err)
{
	CLEANUP(background_query_freep)
	struct background_query *query = query_new(request, partitions, count);
	int r = query == NULL || query->answers == NULL ? err_memory(err)
							: thread_init(&query->thread, err);

	if (r < 0)
		return r;
	query->id = queries->begun + 1;
	thread_watch(&query->thread);
	r = thread_start(&query->thread, "broker_query", run, query, err);
	if (r < 0)
		return r;
	queries->begun++;
	STAILQ_INSERT_TAIL(&queries->list, query, link);
	query = NULL;
	return 0;
}

bool background_query_is_open(
	const struct background_queries *queries, unsigned parts, int32_t leader)
{
	const struct background_query *query;

	STAILQ_FOREACH (query, &queries->list, link) {
		if (query->request.parts == parts && query->request.leader == leader)
			return true;
	}
	return false;
}

struct background_query *background_query_take(struct background_queries *queries)
{
	struct background_query *query;

	STAILQ_FOREACH (query, &queries->list, link) {
		if (!thread_wait(&query->thread, 0))
			continue;
		STAILQ_REMOVE(&queries->list, query, background_query, link);
		return query;
	}
	return NULL;
}

void background_queries_wait(
	struct background_queries *queries, uint64_t after_id, int64_t timeout_ms)
{
	const int64_t until_ms = clock_now_ms() + timeout_ms;
	struct background_query *query;

	STAILQ_FOREACH (query, &queries->list, link) {
		if (query->id > after_id)
			(void)thread_wait(&query->thread, until_ms - clock_now_ms());
	}
}

void background_queries_stop(struct background_queries *queries)
{
	struct background_query *query;

	STAILQ_FOREACH (query, &queries->list, link)
		thread_request_stop(&query->thread);
}

void background_queries_end(struct background_queries *queries)
{
	struct background_query *query;

	background_queries_stop(queries);
	while ((query = STAILQ_FIRST(&queries->list)) != NULL) {
		STAILQ_REMOVE_HEAD(&queries->list, link);
		background_query_free(query);
	}
}
