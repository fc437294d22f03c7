/*
 * Implements probe.h.
 */
#include "ingest/kafka/commands/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/numbers.h"
#include "base/time/clock.h"
#include "ingest/kafka/broker_query.h"
#include "ingest/kafka/client.h"
#include "ingest/kafka/consumer.h"
#include "ingest/kafka/consumer_conf.h"
#include "ingest/kafka/convert.h"
#include "ingest/kafka/tls_errors.h"

/* Most reachable brokers answer within SOON_MS. If librdkafka has tried all brokers without success
 * by then, the probe does not wait until LATE_MS. */
#define SOON_MS              2500
#define LATE_MS              7500
#define COORDINATOR_AGAIN_MS 100
#define ENDS_MS              10000
#define ERRORS               32

struct probe_error {
	rd_kafka_resp_err_t code;
	char text[512]; /* more precise than "timed out" */
};

struct probe {
	struct tls_errors trust; /* must be first: see tls_errors_register() */
	rd_kafka_t *kafka;
	const struct config *config; /* borrowed until probe_close() */
	bool all_down; /* librdkafka tried every broker and reached none, or it cannot try */
	struct probe_error errors[ERRORS]; /* of librdkafka; the next one replaces the oldest one */
	size_t error_count;                /* since the start */
	struct fetched_record fetched;
};

static const struct probe_error *last_error(const struct probe *probe)
{
	return probe->error_count == 0 ? NULL : &probe->errors[(probe->error_count - 1) % ERRORS];
}

static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
	struct probe *probe = opaque;
	struct probe_error *error = &probe->errors[probe->error_count % ERRORS];

	(void)kafka;
	kafka_client_failed((rd_kafka_resp_err_t)code, reason);
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
		tls_errors_is_without_token((rd_kafka_resp_err_t)code, reason))
		probe->all_down = true;
	/* "all brokers down" follows from the errors before it, which say why */
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && probe->error_count > 0)
		return;
	probe->error_count++;
	error->code = (rd_kafka_resp_err_t)code;
	(void)snprintf(
		error->text, sizeof(error->text), "%s: %s", rd_kafka_err2name(error->code), reason);
}

/* Drops log lines: inboxd's settings enable debug lines, which are useless at a terminal. */
static void on_log(const rd_kafka_t *kafka, int level, const char *facility, const char *text)
{
	(void)kafka;
	(void)level;
	(void)facility;
	(void)text;
}

static bool set_kind(rd_kafka_conf_t *conf, enum probe_kind kind, char *words, size_t size)
{
	const bool eof = kind == PROBE_TO_THE_END;

	if (rd_kafka_conf_set(conf, "enable.partition.eof", eof ? "true" : "false", words, size) !=
		RD_KAFKA_CONF_OK)
		return false;
	return kind != PROBE_UNCOMMITTED ||
	       rd_kafka_conf_set(conf, "isolation.level", "read_uncommitted", words, size) ==
		       RD_KAFKA_CONF_OK;
}

int probe_open(
	struct probe **out, const struct config *config, enum probe_kind kind, struct err *err)
{
	struct probe *probe = calloc(1, sizeof(*probe));
	rd_kafka_conf_t *conf = NULL;
	char words[512];
	int r = probe == NULL ? err_memory(err) : consumer_conf_new(&conf, config, err);

	if (r < 0) {
		free(probe);
		return r;
	}
	probe->config = config;
	rd_kafka_conf_set_opaque(conf, probe);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_log_cb(conf, on_log);
	tls_errors_register(&probe->trust, conf);
	if (!set_kind(conf, kind, words, sizeof(words))) {
		rd_kafka_conf_destroy(conf);
		free(probe);
		return err_set(err, FAULT_CONFIG, "kafka: %s", words);
	}
	r = kafka_client_new(
		&probe->kafka, &(struct client_use){ RD_KAFKA_CONSUMER, true }, conf, config, err);
	if (r < 0) {
		free(probe);
		return r;
	}
	(void)rd_kafka_poll_set_consumer(probe->kafka);
	*out = probe;
	return 0;
}

void probe_close(struct probe *probe)
{
	if (probe == NULL)
		return;
	fetched_record_fini(&probe->fetched);
	kafka_client_free(probe->kafka);
	free(probe);
}

rd_kafka_t *probe_handle(const struct probe *probe)
{
	return probe->kafka;
}

/* librdkafka delivers errors as events of the consumer's queue: on_error() runs only inside a poll. Errors of the group are
 * messages. */
static void poll_errors(struct probe *probe)
{
	rd_kafka_message_t *message = rd_kafka_consumer_poll(probe->kafka, 0);

	if (message == NULL)
		return;
	if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR &&
		message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
		on_error(probe->kafka, message->err, rd_kafka_message_errstr(message), probe);
	rd_kafka_message_destroy(message);
}

static const char *advice_for(struct probe *probe, const struct probe_error *error)
{
	return error == NULL ? NULL : tls_errors_advice(&probe->trust, error->code, error->text);
}

int probe_no_answer(struct probe *probe, const char *what, const char *otherwise, struct err *err)
{
	const struct probe_error *last;
	const char *advice;

	poll_errors(probe);
	last = last_error(probe);
	advice = advice_for(probe, last);
	(void)err_set(err, FAULT_KAFKA, "no broker of kafka.bootstrap.servers (%s) %s: %s",
		consumer_conf_value(probe->config, "bootstrap.servers", ""), what,
		last == NULL ? otherwise : last->text);
	if (last == NULL && probe->trust.oidc)
		advice = "the identity provider may have sent no token in time: check "
			 "kafka.sasl.oauthbearer.token.endpoint.url, the brokers and the network";
	return err_advise(err, "%s",
		advice != NULL
			? advice
			: "correct kafka.bootstrap.servers, or check the brokers and the network");
}

static bool is_group_refused(const struct probe_error *last)
{
	return last != NULL && last->code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
}

static int no_coordinator(
	const struct probe_error *last, const char *group, const char *otherwise, struct err *err)
{
	(void)err_set(err, FAULT_KAFKA, "no coordinator of the group \"%s\" answers: %s", group,
		last == NULL ? otherwise : last->text);
	return err_advise(err, "%s",
		is_group_refused(last)
			? "grant READ on the group, or correct kafka.group.id"
			: "check the brokers, and their topic __consumer_offsets: each of its "
			  "partitions needs a leader");
}

/* The group's offset of any partition comes from the coordinator; which one it is has no meaning. A cluster that has had no
 * group yet creates __consumer_offsets at the first request. Until its partition is loaded, the broker answers at once that it
 * is not the coordinator, so an answer with an error is not the end. */
int probe_coordinator(struct probe *probe, const char *topic, struct err *err)
{
	const char *group = consumer_conf_value(probe->config, "group.id", "");
	const struct timespec pause = { .tv_nsec = COORDINATOR_AGAIN_MS * 1000000L };
	const int64_t deadline = clock_now_ms() + SOON_MS + LATE_MS;
	struct partition_offset any = { .topic = topic };
	struct err reason = ERR_INIT;

	while (broker_query_committed(probe->kafka, &any, 1, &reason) != 0) {
		poll_errors(probe);
		if (is_group_refused(last_error(probe)) || clock_now_ms() >= deadline)
			return no_coordinator(last_error(probe), group, reason.text, err);
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* librdkafka begins each error of a connection with the name of the broker: "sasl_ssl://HOST:PORT/ID: ". */
static const struct probe_error *error_of(struct probe *probe, const char *broker)
{
	size_t kept = probe->error_count < ERRORS ? probe->error_count : ERRORS;

	for (size_t i = 1; i <= kept; i++) {
		const struct probe_error *error = &probe->errors[(probe->error_count - i) % ERRORS];
		const char *found = strstr(error->text, broker);

		/* another host's name can end with this one */
		if (found != NULL && found > error->text && (found[-1] == ' ' || found[-1] == '/'))
			return error;
	}
	return NULL;
}

bool probe_broker_failed(struct probe *probe, const char *broker)
{
	poll_errors(probe);
	return error_of(probe, broker) != NULL;
}

int probe_unreachable(struct probe *probe, const char *broker, struct err *err)
{
	const struct probe_error *error = error_of(probe, broker);
	const char *advice = advice_for(probe, error);
	int address = (int)(strrchr(broker, '/') - broker);

	(void)err_set(err, FAULT_KAFKA,
		"broker %.*s cannot be reached at the address that it advertises, %.*s: %s",
		(int)strcspn(broker + address + 1, ":"), broker + address + 1, address, broker,
		error == NULL ? "no answer" : error->text);
	return err_advise(err, "%s",
		advice != NULL ? advice
			       : "correct advertised.listeners of this broker, the resolution of "
				 "the name, or the firewall");
}

/* Like rd_kafka_metadata(). */
static rd_kafka_resp_err_t ask_metadata(
	struct probe *probe, bool all, rd_kafka_topic_t *only, const struct rd_kafka_metadata **out)
{
	rd_kafka_resp_err_t code = rd_kafka_metadata(probe->kafka, all, only, out, SOON_MS);

	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		return code;
	poll_errors(probe);
	return probe->all_down ? code : rd_kafka_metadata(probe->kafka, all, only, out, LATE_MS);
}

int probe_metadata(struct probe *probe, const struct rd_kafka_metadata **out, struct err *err)
{
	rd_kafka_resp_err_t code = ask_metadata(probe, true, NULL, out);

	return code == RD_KAFKA_RESP_ERR_NO_ERROR
		       ? 0
		       : probe_no_answer(probe, "answered", rd_kafka_err2str(code), err);
}

char *probe_cluster_id(struct probe *probe)
{
	char *id = broker_query_cluster_id(probe->kafka, SOON_MS);

	if (id != NULL)
		return id;
	poll_errors(probe);
	return probe->all_down ? NULL : broker_query_cluster_id(probe->kafka, LATE_MS);
}

static int check_topic(const char *topic, int64_t partition, int32_t partitions,
	rd_kafka_resp_err_t code, struct err *err)
{
	if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
		(void)err_set(err, FAULT_CHECK,
			"topic \"%s\" does not exist, or is not visible with these credentials",
			topic);
		return err_advise(err, "correct its name, or grant DESCRIBE and READ");
	}
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, FAULT_CHECK, "topic \"%s\": %s", topic, rd_kafka_err2str(code));
	if (partition >= partitions)
		return err_set(err, FAULT_CHECK, "topic \"%s\" has %d partition%s, 0 to %d", topic,
			partitions, plural(partitions), partitions - 1);
	return 0;
}

int probe_topic(struct probe *probe, const char *topic, int64_t partition, int32_t *partitions,
	struct err *err)
{
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_topic_t *handle = rd_kafka_topic_new(probe->kafka, topic, NULL);
	rd_kafka_resp_err_t found = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
	rd_kafka_resp_err_t code;

	*partitions = 0;
	if (handle == NULL) /* the name is empty or too long */
		return check_topic(topic, partition, 0, found, err);
	code = ask_metadata(probe, false, handle, &metadata);
	rd_kafka_topic_destroy(handle);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return probe_no_answer(probe, "answered", rd_kafka_err2str(code), err);
	if (metadata->topic_cnt == 1) {
		*partitions = metadata->topics[0].partition_cnt;
		found = metadata->topics[0].err;
	}
	rd_kafka_metadata_destroy(metadata);
	return check_topic(topic, partition, *partitions, found, err);
}

/* --- Reading ----------------------------------------------------------------------------------- */

static int failed(const char *what, rd_kafka_resp_err_t code, struct err *err)
{
	return err_set(err, FAULT_KAFKA, "%s: %s", what, rd_kafka_err2str(code));
}

int probe_ends(struct probe *probe, const char *topic, int32_t partition, struct log_ends *out,
	struct err *err)
{
	rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
		probe->kafka, topic, partition, &out->low, &out->high, ENDS_MS);

	return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : failed("the ends of the log", code, err);
}

int probe_read(
	struct probe *probe, const char *topic, int32_t partition, int64_t offset, struct err *err)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_resp_err_t code;

	rd_kafka_topic_partition_list_add(list, topic, partition)->offset = offset;
	code = rd_kafka_assign(probe->kafka, list);
	rd_kafka_topic_partition_list_destroy(list);
	return code == RD_KAFKA_RESP_ERR_NO_ERROR ? 0 : failed("assign", code, err);
}

void probe_stop_reading(struct probe *probe)
{
	fetched_record_clear(&probe->fetched);
	(void)rd_kafka_assign(probe->kafka, NULL);
}

int probe_poll(struct probe *probe, int timeout_ms, const struct record **out, struct err *err)
{
	rd_kafka_message_t *message;
	rd_kafka_resp_err_t code;

	fetched_record_clear(&probe->fetched);
	message = rd_kafka_consumer_poll(probe->kafka, timeout_ms);
	if (message == NULL)
		return CONSUMER_NOTHING;
	code = message->err;
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
		rd_kafka_message_destroy(message);
		return failed("reading again", code, err);
	}
	if (fetched_record_set(&probe->fetched, message, err) < 0)
		return FAULT_MEMORY;
	*out = &probe->fetched.record;
	return code == RD_KAFKA_RESP_ERR_NO_ERROR ? CONSUMER_RECORD : CONSUMER_PARTITION_END;
}
