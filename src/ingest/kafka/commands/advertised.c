/*
 * Implements advertised.h. librdkafka sends one request to each broker, so that TLS and the login are tried at its address,
 * too. What the broker answers has no meaning: a refusal also shows that it can be reached.
 */
#include "ingest/kafka/commands/advertised.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/time/clock.h"

#define POLL_MS    50
/* The wait when each broker without an answer has had an error. In this time librdkafka tries each address of a name. */
#define SOON_MS    2000
#define LATE_MS    7500

/* Any name will do. Most users may not read the configuration of this topic, and get an error as the answer. */
#define SOME_TOPIC "inboxd"

struct asked {
	char broker[300]; /* of probe_unreachable() */
	bool ended;
	bool reached;
};

static void ask(rd_kafka_t *kafka, int32_t id, struct asked *asked, rd_kafka_queue_t *queue)
{
	rd_kafka_ConfigResource_t *topic =
		rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, SOME_TOPIC);
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(kafka, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);

	(void)rd_kafka_AdminOptions_set_broker(options, id, NULL, 0);
	(void)rd_kafka_AdminOptions_set_request_timeout(options, LATE_MS, NULL, 0);
	rd_kafka_AdminOptions_set_opaque(options, asked);
	rd_kafka_DescribeConfigs(kafka, &topic, 1, options, queue);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_ConfigResource_destroy(topic);
}

/* librdkafka's own errors are negative. A broker without this request was asked for its requests, and has answered. */
static bool is_from_a_broker(rd_kafka_resp_err_t code)
{
	return code >= RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE;
}

static void take_answer(rd_kafka_queue_t *queue)
{
	rd_kafka_event_t *event = rd_kafka_queue_poll(queue, POLL_MS);
	struct asked *asked;

	if (event == NULL)
		return;
	asked = rd_kafka_event_opaque(event);
	asked->ended = true;
	asked->reached = is_from_a_broker(rd_kafka_event_error(event));
	rd_kafka_event_destroy(event);
}

/* How long to wait for the brokers that have not answered; 0: all have. */
static int64_t limit_ms(struct probe *probe, const struct asked *asked, size_t count)
{
	int64_t limit = 0;

	for (size_t i = 0; i < count && limit < LATE_MS; i++) {
		if (asked[i].ended)
			continue;
		limit = probe_broker_failed(probe, asked[i].broker) ? SOON_MS : LATE_MS;
	}
	return limit;
}

static int report_brokers(struct probe *probe, const struct asked *asked, size_t count,
	struct buf *report, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		struct err one = ERR_INIT;

		if (asked[i].reached)
			continue;
		(void)probe_unreachable(probe, asked[i].broker, r == 0 ? err : &one);
		if (r != 0)
			buf_addf(report, "%s\n", one.text);
		r = FAULT_KAFKA;
	}
	return r;
}

int advertised_check(struct probe *probe, const struct rd_kafka_metadata *metadata,
	struct buf *report, struct err *err)
{
	size_t count = (size_t)metadata->broker_cnt;
	CLEANUP(freep) struct asked *asked = calloc(count + 1, sizeof(*asked));
	rd_kafka_t *kafka = probe_handle(probe);
	rd_kafka_queue_t *queue;
	int64_t began_ms = clock_now_ms();

	if (asked == NULL)
		return err_memory(err);
	queue = rd_kafka_queue_new(kafka);
	for (size_t i = 0; i < count; i++) {
		const struct rd_kafka_metadata_broker *broker = &metadata->brokers[i];

		(void)snprintf(asked[i].broker, sizeof(asked[i].broker), "%s:%d/%d:", broker->host,
			broker->port, broker->id);
		ask(kafka, broker->id, &asked[i], queue);
	}
	while (clock_now_ms() - began_ms < limit_ms(probe, asked, count))
		take_answer(queue);
	rd_kafka_queue_destroy(queue);
	return report_brokers(probe, asked, count, report, err);
}
