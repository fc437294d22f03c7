/*
 * Implements consumer.h. All callbacks run inside consumer_poll() or consumer_close() on the ingest
 * thread, except on_log(), which runs on threads of librdkafka and therefore uses atomics only.
 */
#include "ingest/kafka/consumer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/faultpoint.h"
#include "base/log.h"
#include "base/threads/progress.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/client.h"
#include "ingest/kafka/consumer_conf.h"
#include "ingest/kafka/convert.h"
#include "ingest/kafka/credentials.h"
#include "ingest/kafka/throttle.h"
#include "ingest/kafka/tls_errors.h"
#include "ingest/kafka/topic_recreation.h"

#define SEEK_MS                    2000
/* of KIP-848, which librdkafka names since 2.4 */
#define UNRELEASED_INSTANCE_ID     111
#define UNSUPPORTED_ASSIGNOR       112
#define SYSLOG_ERROR               3
#define SYSLOG_WARNING             4
#define SYSLOG_INFO                6
#define ASK_EVERY                  ((size_t)PREFETCH_KIB * 1024 / 2)
#define RECORD_COST                64 /* so that empty records count as well */

/* Below 2.3 librdkafka aborts the process when a member is destroyed between joining and its first
 * assignment by the sticky assignor (librdkafka issue 4312). */
#define VERSION_SAFE_WHILE_JOINING 0x020300ff

struct consumer {
	struct tls_errors trust; /* must be first: see tls_errors_register() */
	rd_kafka_t *kafka;
	struct consumer_events events;
	struct throttle throttle;
	char *group;
	atomic_uint resets;
	bool joined;  /* received at least one assignment, even an empty one */
	bool joining; /* subscribed before that */
	bool ended;   /* by a fatal error of librdkafka */
	struct topic_recreation recreation;
	size_t taken; /* bytes of records since the last request of keep_fetching() */
	struct fetched_record fetched; /* what consumer_poll() returned last */
	struct credentials credentials;
	int log_level; /* as the user set it; librdkafka itself runs at debug level */
};

/* --- Events ------------------------------------------------------------------------------------ */

/* Runs on threads of librdkafka. When librdkafka resets an offset after an error, it logs with the facility OFFSET
 * before it fetches from the new offset. With `auto.offset.reset: error` it would raise an event instead, but then
 * the partition stops and rejects a seek. So this log line is the only usable sign of a reset (ADR 26). FAIL lines
 * repeat what on_error() gets. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
	struct consumer *consumer = rd_kafka_opaque(kafka);
	enum log_level ours = level <= SYSLOG_ERROR     ? LOG_ERROR
			      : level == SYSLOG_WARNING ? LOG_WARN
			      : level <= SYSLOG_INFO    ? LOG_INFO
							: LOG_DEBUG;

	if (level <= SYSLOG_WARNING && strcmp(facility, "OFFSET") == 0)
		atomic_fetch_add(&consumer->resets, 1);
	topic_recreation_note(&consumer->recreation, facility, text);
	if (level <= consumer->log_level && strcmp(facility, "FAIL") != 0)
		log_at(ours, "kafka", LOG_STR("facility", facility), LOG_STR("text", text));
}

/* What to do after an error that ends the client. The text of librdkafka names no setting, and not always the reason. */
static const char *meaning_of(int code)
{
	static const struct {
		int code;
		const char *meaning;
	} meanings[] = {
		{ RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND,
			"the brokers could not convert the group for kafka.group.protocol "
			"\"consumer\". They cannot while it has classic members with the "
			"strategy cooperative-sticky, the default of inboxd, or if their "
			"group.consumer.migration.policy forbids it: stop all classic members" },
		{ RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION,
			"the brokers do not support kafka.group.protocol \"consumer\": they need "
			"Kafka 4.0 and the feature group.version=1; otherwise remove the setting "
			"and restart inboxd" },
		{ UNSUPPORTED_ASSIGNOR,
			"the brokers have no assignor with the name in kafka.group.remote.assignor "
			"(see their group.consumer.assignors; by default uniform and range): "
			"correct it and restart inboxd" },
		{ RD_KAFKA_RESP_ERR_GROUP_MAX_SIZE_REACHED,
			"the group is full: stop members, or raise the brokers' "
			"group.consumer.max.size" },
		{ RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
			"grant the user of Kafka the privilege READ on the group" },
	};

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (meanings[i].code == code)
			return meanings[i].meaning;
	}
	return "no action is known";
}

/* Later events and polls report the same error again. */
static void report_fatal(struct consumer *consumer)
{
	char words[512];
	rd_kafka_resp_err_t code = rd_kafka_fatal_error(consumer->kafka, words, sizeof(words));

	if (consumer->ended)
		return;
	consumer->ended = true;
	consumer->events.ended(consumer->events.arg,
		&(struct client_end){
			.code = rd_kafka_err2name(code),
			.error = words,
			.meaning = meaning_of(code),
			.id_in_use = code == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID ||
				     code == UNRELEASED_INSTANCE_ID,
		});
}

/* The advice for an error that an operator must correct. */
static const char *next_after(rd_kafka_resp_err_t code)
{
	switch (code) {
	case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
		return "joining is retried; the other members of kafka.group.id support none of "
		       "this instance's kafka.partition.assignment.strategy: set one that all "
		       "members have";
	case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
		return "checked again every kafka.topic.metadata.refresh.interval.ms; create it, "
		       "or remove it from kafka.topics";
	case RD_KAFKA_RESP_ERR__FATAL:
		return "this instance ends, and a new one joins the group";
	default:
		return "librdkafka retries";
	}
}

/* The kind of the fault if the error is about the connection to a broker; otherwise -1. */
static int broker_fault_kind(rd_kafka_resp_err_t code)
{
	switch (code) {
	case RD_KAFKA_RESP_ERR__TRANSPORT:
	case RD_KAFKA_RESP_ERR__RESOLVE:
	case RD_KAFKA_RESP_ERR__TIMED_OUT:
		return BROKER_LOST;
	case RD_KAFKA_RESP_ERR__AUTHENTICATION:
		return BROKER_REFUSES;
	case RD_KAFKA_RESP_ERR__SSL:
		return BROKER_TLS;
	case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
		return BROKERS_ALL_DOWN;
	default:
		return -1;
	}
}

static void log_error_code(rd_kafka_resp_err_t code, const char *reason)
{
	log_warn("kafka_error", LOG_STR("code", rd_kafka_err2name(code)), LOG_STR("error", reason),
		LOG_STR("next", next_after(code)));
}

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
	struct consumer *consumer = opaque;
	const rd_kafka_resp_err_t error = (rd_kafka_resp_err_t)code;
	const int kind = broker_fault_kind(error);
	const char *advice;

	(void)kafka;
	if (code == RD_KAFKA_RESP_ERR__FATAL) {
		report_fatal(consumer);
		return;
	}
	kafka_client_failed(error, reason);
	advice = tls_errors_advice(&consumer->trust, error, reason);
	if (error == RD_KAFKA_RESP_ERR__BAD_MSG)
		consumer->events.fetch_failed(consumer->events.arg,
			&(struct fetch_fault){ NULL, -1, rd_kafka_err2name(error), reason });
	else if (kind < 0)
		log_error_code(error, reason);
	else
		consumer->events.broker_failed(consumer->events.arg,
			&(struct broker_fault){
				.kind = (enum broker_fault_kind)kind,
				.code = rd_kafka_err2name(error),
				.error = reason,
				.next = advice != NULL ? advice : next_after(error),
			});
}

static void on_throttle(
	rd_kafka_t *kafka, const char *broker, int32_t id, int delay_ms, void *opaque)
{
	struct consumer *consumer = opaque;

	(void)kafka;
	(void)id;
	throttle_note(&consumer->throttle, broker, delay_ms);
}

static void log_not_committed(rd_kafka_resp_err_t code)
{
	log_warn("offsets_not_committed", LOG_STR("error", rd_kafka_err2str(code)),
		LOG_STR("code", rd_kafka_err2name(code)),
		LOG_STR("next", "the database has stored them: no message is stored twice"));
}

static void on_commit(rd_kafka_t *kafka, rd_kafka_resp_err_t code,
	rd_kafka_topic_partition_list_t *list, void *opaque)
{
	struct consumer *consumer = opaque;

	(void)kafka;
	FAULT_POINT("after_offset_commit");
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR__NO_OFFSET)
		return;
	log_not_committed(code);
	for (int i = 0; list != NULL && i < list->cnt; i++) {
		const struct partition_offset item = partition_list_item(&list->elems[i]);

		consumer->events.not_committed(consumer->events.arg, &item);
	}
}

/* --- Rebalancing ------------------------------------------------------------------------------- */

static bool is_cooperative(const struct consumer *consumer)
{
	const char *protocol = rd_kafka_rebalance_protocol(consumer->kafka);

	return protocol != NULL && strcmp(protocol, "COOPERATIVE") == 0;
}

static void log_assign_error(rd_kafka_error_t *error)
{
	if (error == NULL)
		return;
	log_error_code(rd_kafka_error_code(error), rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
}

static void assign_all(struct consumer *consumer, const rd_kafka_topic_partition_list_t *list)
{
	rd_kafka_resp_err_t code = rd_kafka_assign(consumer->kafka, list);

	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		log_error_code(code, "the assignment of partitions failed");
}

/* The list as an array. NULL: there was no memory, and `fatal` was called. */
static struct partition_offset *items_of(
	struct consumer *consumer, const rd_kafka_topic_partition_list_t *list)
{
	struct partition_offset *items = calloc((size_t)list->cnt + 1, sizeof(*items));
	struct err err = ERR_INIT;

	if (items == NULL) {
		(void)err_memory(&err);
		consumer->events.fatal(consumer->events.arg, &err);
		return NULL;
	}
	for (int i = 0; i < list->cnt; i++)
		items[i] = partition_list_item(&list->elems[i]);
	return items;
}

/* librdkafka knows the partitions of a topic only while it has an object for the topic. Returns a list that owns one for each
 * partition. */
static rd_kafka_topic_partition_list_t *open_topics(
	struct consumer *consumer, const rd_kafka_topic_partition_list_t *list)
{
	rd_kafka_topic_partition_list_t *opened = rd_kafka_topic_partition_list_copy(list);

	for (int i = 0; i < opened->cnt; i++)
		opened->elems[i].opaque =
			rd_kafka_topic_new(consumer->kafka, opened->elems[i].topic, NULL);
	return opened;
}

static void close_topics(rd_kafka_topic_partition_list_t *opened)
{
	for (int i = 0; i < opened->cnt; i++) {
		if (opened->elems[i].opaque != NULL)
			rd_kafka_topic_destroy(opened->elems[i].opaque);
	}
	rd_kafka_topic_partition_list_destroy(opened);
}

/* Pauses the partitions that librdkafka knows, and removes them from the list. */
static void pause_known(struct consumer *consumer, rd_kafka_topic_partition_list_t *list)
{
	(void)rd_kafka_pause_partitions(consumer->kafka, list);
	for (int i = list->cnt - 1; i >= 0; i--) {
		if (list->elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR)
			(void)rd_kafka_topic_partition_list_del_by_idx(list, i);
	}
}

/* Assigns the partitions paused: without the pause librdkafka would fetch records before inboxd has decided the start offset.
 *
 * Each partition gets an offset, from which nothing is read. Without an offset librdkafka asks the coordinator for the
 * committed one, and its main thread starts the partition when the answer arrives. If this thread pauses or resumes the
 * partition at that moment, librdkafka can silently drop the start or the resume (librdkafka issue 5591, ADR 35). With an
 * offset, the start is queued before the assignment returns. */
static void on_assigned(struct consumer *consumer, rd_kafka_topic_partition_list_t *list)
{
	CLEANUP(freep) struct partition_offset *items = items_of(consumer, list);
	rd_kafka_topic_partition_list_t *opened = open_topics(consumer, list);
	rd_kafka_topic_partition_list_t *unpaused = rd_kafka_topic_partition_list_copy(list);

	pause_known(consumer, unpaused);
	for (int i = 0; i < list->cnt; i++)
		list->elems[i].offset = 0;
	if (is_cooperative(consumer))
		log_assign_error(rd_kafka_incremental_assign(consumer->kafka, list));
	else
		assign_all(consumer, list);
	pause_known(consumer, unpaused);
	rd_kafka_topic_partition_list_destroy(unpaused);
	close_topics(opened);
	if (items != NULL)
		consumer->events.assigned(consumer->events.arg, items, (size_t)list->cnt);
}

static void on_revoked(struct consumer *consumer, const rd_kafka_topic_partition_list_t *list)
{
	CLEANUP(freep) struct partition_offset *items = items_of(consumer, list);
	bool lost = rd_kafka_assignment_lost(consumer->kafka) != 0;

	if (items != NULL)
		consumer->events.revoked(consumer->events.arg, items, (size_t)list->cnt, lost);
	if (is_cooperative(consumer))
		log_assign_error(rd_kafka_incremental_unassign(consumer->kafka, list));
	else
		assign_all(consumer, NULL);
}

static void on_rebalance(rd_kafka_t *kafka, rd_kafka_resp_err_t code,
	rd_kafka_topic_partition_list_t *list, void *opaque)
{
	struct consumer *consumer = opaque;

	(void)kafka;
	if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
		consumer->joining = false;
		consumer->joined = true;
		on_assigned(consumer, list);
	} else if (code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) {
		on_revoked(consumer, list);
	} else {
		log_error_code(code, "joining the group failed");
		assign_all(consumer, NULL);
	}
}

/* --- Creation and end -------------------------------------------------------------------------- */

static int make_handle(struct consumer *consumer, const struct config *config, struct err *err)
{
	rd_kafka_conf_t *conf = NULL;
	int r;

	if (consumer_conf_new(&conf, config, err) < 0)
		return FAULT_CONFIG;
	rd_kafka_conf_set_opaque(conf, consumer);
	rd_kafka_conf_set_log_cb(conf, on_log);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_throttle_cb(conf, on_throttle);
	rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
	tls_errors_register(&consumer->trust, conf);
	rd_kafka_conf_set_offset_commit_cb(conf, on_commit);
	r = kafka_client_new(&consumer->kafka, &(struct client_use){ RD_KAFKA_CONSUMER, false },
		conf, config, err);
	if (r < 0)
		return r;
	(void)rd_kafka_poll_set_consumer(consumer->kafka);
	return 0;
}

int consumer_new(struct consumer **out, const struct config *config,
	const struct consumer_events *events, struct metrics *metrics, struct err *err)
{
	struct consumer *consumer = calloc(1, sizeof(*consumer));
	int r;

	if (consumer == NULL)
		return err_memory(err);
	consumer->events = *events;
	throttle_init(&consumer->throttle, "consumer", metrics);
	topic_recreation_init(&consumer->recreation);
	/* librdkafka accepts only numbers from 0 to 7 */
	consumer->log_level = (int)strtol(consumer_conf_value(config, "log_level", "6"), NULL, 10);
	consumer->group = strdup(consumer_conf_value(config, "group.id", ""));
	r = consumer->group == NULL ? err_memory(err) : make_handle(consumer, config, err);
	if (r < 0) {
		consumer_free(consumer);
		return r;
	}
	*out = consumer;
	return 0;
}

void consumer_free(struct consumer *consumer)
{
	if (consumer == NULL)
		return;
	fetched_record_fini(&consumer->fetched);
	/* The consumer is closed. Its idle threads run until the process ends and may still log
	 * with `consumer`, so nothing else is freed. */
	if (consumer->joining && rd_kafka_version() < VERSION_SAFE_WHILE_JOINING) {
		kafka_client_forget(consumer->kafka);
		return;
	}
	if (consumer->kafka != NULL)
		kafka_client_free(consumer->kafka);
	topic_recreation_fini(&consumer->recreation);
	credentials_fini(&consumer->credentials);
	free(consumer->group);
	free(consumer);
}

void consumer_close(struct consumer *consumer)
{
	rd_kafka_resp_err_t code;

	fetched_record_clear(&consumer->fetched);
	code = rd_kafka_consumer_close(consumer->kafka);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		log_error_code(code,
			"leaving the group failed; the group will notice by the session timeout");
}

int consumer_subscribe(struct consumer *consumer, const struct strings *topics, struct err *err)
{
	rd_kafka_topic_partition_list_t *list =
		rd_kafka_topic_partition_list_new((int)topics->count);
	rd_kafka_resp_err_t code;

	for (size_t i = 0; i < topics->count; i++)
		(void)rd_kafka_topic_partition_list_add(
			list, topics->items[i], RD_KAFKA_PARTITION_UA);
	code = rd_kafka_subscribe(consumer->kafka, list);
	rd_kafka_topic_partition_list_destroy(list);
	consumer->joining = !consumer->joined;
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return 0;
	return err_set(
		err, FAULT_CONFIG, "kafka.topics: cannot subscribe: %s", rd_kafka_err2str(code));
}

void consumer_unsubscribe(struct consumer *consumer)
{
	rd_kafka_resp_err_t code = rd_kafka_unsubscribe(consumer->kafka);

	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		log_error_code(code,
			"leaving the group failed; the group will notice by the session timeout");
}

void consumer_look_at_throttle(struct consumer *consumer)
{
	throttle_look(&consumer->throttle);
}

void consumer_refresh_credentials(struct consumer *consumer, const struct config *config)
{
	credentials_refresh(&consumer->credentials, consumer->kafka, config);
}

rd_kafka_t *consumer_handle(const struct consumer *consumer)
{
	return consumer->kafka;
}

const char *consumer_group(const struct consumer *consumer)
{
	return consumer->group;
}

/* --- Reading ----------------------------------------------------------------------------------- */

/* Keeps the fetches going. Before version 2.2 a broker thread of librdkafka that finds the prefetch queue full checks
 * again only after one second, or when something else happens on its connection. Therefore inboxd wakes the leaders of the assigned
 * partitions after every megabyte. From 2.2 on the pause is a setting (fetch.queue.backoff.ms), and no request is necessary. */
static void keep_fetching(struct consumer *consumer, const rd_kafka_message_t *record)
{
	rd_kafka_topic_partition_list_t *list = NULL;

	consumer->taken += record->len + record->key_len + RECORD_COST;
	if (consumer->taken < ASK_EVERY || prefetch_has_backoff())
		return;
	consumer->taken = 0;
	if (rd_kafka_assignment(consumer->kafka, &list) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	broker_wake_leaders(consumer->kafka, list);
	rd_kafka_topic_partition_list_destroy(list);
}

/* An error with an offset comes from a fetch; the others are of a whole topic. */
static void report_error(struct consumer *consumer, const rd_kafka_message_t *message)
{
	if (message->err == RD_KAFKA_RESP_ERR__FATAL) {
		report_fatal(consumer);
		return;
	}
	if (message->rkt == NULL || message->offset < 0) {
		log_error_code(message->err, rd_kafka_message_errstr(message));
		return;
	}
	consumer->events.fetch_failed(consumer->events.arg,
		&(struct fetch_fault){ rd_kafka_topic_name(message->rkt), message->partition,
			rd_kafka_err2name(message->err), rd_kafka_message_errstr(message) });
}

int consumer_poll(
	struct consumer *consumer, int timeout_ms, const struct record **out, struct err *err)
{
	rd_kafka_message_t *message;
	bool is_end;

	fetched_record_clear(&consumer->fetched);
	if (timeout_ms > 0)
		progress_note(timeout_ms);
	message = rd_kafka_consumer_poll(consumer->kafka, timeout_ms);
	if (message == NULL)
		return CONSUMER_NOTHING;
	is_end = message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
	if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR && !is_end) {
		report_error(consumer, message);
		rd_kafka_message_destroy(message);
		return CONSUMER_NOTHING;
	}
	if (!is_end)
		keep_fetching(consumer, message);
	if (fetched_record_set(&consumer->fetched, message, err) < 0)
		return FAULT_MEMORY;
	*out = &consumer->fetched.record;
	return is_end ? CONSUMER_PARTITION_END : CONSUMER_RECORD;
}

unsigned consumer_resets(struct consumer *consumer)
{
	return atomic_load_explicit(&consumer->resets, memory_order_acquire);
}

void consumer_failed_fetches(struct consumer *consumer,
	void (*visit)(void *arg, const char *topic, int32_t partition), void *arg)
{
	rd_kafka_topic_partition_list_t *failed = topic_recreation_take(&consumer->recreation);

	if (failed == NULL)
		return;
	for (int i = 0; i < failed->cnt; i++)
		visit(arg, failed->elems[i].topic, failed->elems[i].partition);
	rd_kafka_topic_partition_list_destroy(failed);
}

void consumer_pause(struct consumer *consumer, const struct partition_offset *items, size_t count)
{
	rd_kafka_topic_partition_list_t *list;

	if (count == 0)
		return;
	list = partition_list_of(items, count);
	(void)rd_kafka_pause_partitions(consumer->kafka, list);
	rd_kafka_topic_partition_list_destroy(list);
}

static void seek_all(struct consumer *consumer, rd_kafka_topic_partition_list_t *list)
{
	rd_kafka_error_t *error = NULL;

	progress_note(SEEK_MS);
	if (list->cnt > 0)
		error = rd_kafka_seek_partitions(consumer->kafka, list, SEEK_MS);
	for (int i = 0; error != NULL && i < list->cnt; i++)
		list->elems[i].err = rd_kafka_error_code(error);
	if (error != NULL)
		rd_kafka_error_destroy(error);
	for (int i = 0; i < list->cnt && FAULT_ERROR("error_not_started"); i++)
		list->elems[i].err = RD_KAFKA_RESP_ERR__STATE;
}

/* A first seek shows which partitions are started. It fails for the others, without an effect on a start that is on its way.
 * Only a started partition is resumed, and sought once more afterwards (rule R20): a resume alone could continue at an
 * offset that librdkafka has chosen. No poll happens in between, and a successful seek drops the records that were
 * already fetched.
 *
 * Since version 2.1 only a change of the partition's state wakes the thread of librdkafka that fetches it. A resume changes no state, and
 * neither does a seek to offset 0; a seek to another offset does so for a moment. Without the last step, this thread would look again
 * only after a second, and the first record of a new topic would wait for it. */
void consumer_flow(struct consumer *consumer, struct partition_offset *items, size_t count)
{
	rd_kafka_topic_partition_list_t *list = partition_list_of(items, count);
	rd_kafka_topic_partition_list_t *started;
	rd_kafka_topic_partition_list_t *resumed;
	bool at_zero = false;

	seek_all(consumer, list);
	partition_list_answer(list, items, count);
	started = rd_kafka_topic_partition_list_new((int)count);
	for (size_t i = 0; i < count; i++) {
		if (items[i].error == NULL)
			rd_kafka_topic_partition_list_add(
				started, items[i].topic, items[i].partition)
				->offset = items[i].offset;
	}
	resumed = rd_kafka_topic_partition_list_copy(started);
	(void)rd_kafka_resume_partitions(consumer->kafka, resumed);
	seek_all(consumer, started);
	for (size_t i = 0, at = 0; i < count; i++) {
		if (items[i].error != NULL)
			continue;
		items[i].error = partition_list_item(&started->elems[at++]).error;
		if (items[i].error != NULL)
			consumer_pause(consumer, &items[i], 1);
		at_zero = at_zero || items[i].offset == 0;
	}
	if (at_zero)
		broker_wake_leaders(consumer->kafka, resumed);
	rd_kafka_topic_partition_list_destroy(resumed);
	rd_kafka_topic_partition_list_destroy(started);
	rd_kafka_topic_partition_list_destroy(list);
}

void consumer_commit(struct consumer *consumer, const struct partition_offset *items, size_t count)
{
	rd_kafka_topic_partition_list_t *list = partition_list_of(items, count);
	rd_kafka_resp_err_t code = rd_kafka_commit(consumer->kafka, list, 1);

	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		log_not_committed(code);
	rd_kafka_topic_partition_list_destroy(list);
}
